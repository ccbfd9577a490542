echo "{}" > g.npy
nf quality --gradients g.npy
