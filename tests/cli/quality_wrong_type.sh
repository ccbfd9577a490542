python3 "$CASES/make_npy.py" g.npy 2 100 --descr "<f8"
nf quality --gradients g.npy
