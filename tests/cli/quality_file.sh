# Whole numbers add exactly, and zeros stay zeros.
python3 "$CASES/make_npy.py" g.npy 4 619 --zero 448
cp "$CASES/tiny.json" g.json
nf quality --gradients g.npy --codec fp32,bf16 --topology ring,tree,direct,halving_doubling,endpoint --json > lines
python3 "$CASES/json_lines.py" codec topology ranks elements vnmse parameter_vnmse worst_parameter_vnmse slope cosine gradients < lines
# The first rows and elements of it, of the other version, with counts for shapes.
python3 "$CASES/make_npy.py" two.npy 4 619 --version 2
echo "{\"parameters\": [{\"name\": \"a\", \"count\": 600}, {\"name\": \"b\", \"count\": 19}]}" > two.json
nf quality --gradients two.npy --ranks 3 --elements 610 --codec fp32 --topology ring --json | python3 "$CASES/json_lines.py" ranks elements vnmse
