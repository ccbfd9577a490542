# What readers of the lines rely on: the keys, and the order in which rows come.
nf quality --gradients mixture:3 --ranks 4 --elements 10000 --codec bf16,mxfp8,g_binary --topology ring,direct --trials 2 --json > lines
python3 "$CASES/json_lines.py" < lines | sort -u
python3 "$CASES/json_lines.py" codec topology ranks elements trials bits gradients correlation < lines
