python3 "$CASES/make_npy.py" g.npy 2 100 --nan
nf quality --gradients g.npy --codec waterfill:4 --topology ring
