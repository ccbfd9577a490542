python3 "$CASES/make_npy.py" g.npy 2 100
nf quality --gradients g.npy --elements 101
