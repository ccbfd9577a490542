# Two ranks that cancel each other: the exact sum is zero, and what comes out is noise.
python3 "$CASES/make_npy.py" g.npy 2 600 --opposite
nf quality --gradients g.npy --codec fp32,mxfp8,waterfill:4 --topology ring --json > lines
python3 "$CASES/json_lines.py" codec vnmse parameter_vnmse worst_parameter_vnmse < lines
