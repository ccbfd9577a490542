nf quality --gradients g.npy --correlation 0.5
