python3 "$CASES/make_npy.py" g.npy 2 100 --cut 4
nf quality --gradients g.npy
