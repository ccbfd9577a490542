# What readers of the lines rely on: the keys, and the order in which operations come.
nf bench codec --codec fp32,g_binary,waterfill:4 --count 1000 --repeat 1 --json > lines
python3 "$CASES/json_lines.py" < lines | sort -u
python3 "$CASES/json_lines.py" codec op device dtype count bytes < lines
