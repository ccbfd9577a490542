python3 "$CASES/make_npy.py" g.npy 2 100 --fortran
nf quality --gradients g.npy
