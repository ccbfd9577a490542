python3 "$CASES/make_npy.py" g.npy 2 100
cp "$CASES/tiny.json" g.json
nf quality --gradients g.npy
