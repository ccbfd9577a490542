# What readers of the lines rely on.
nf cxl run --mode g_binary --workers 3 --lines 100 --repeat 1 --llc-miss 0.5,1 --clock-ghz 1,2 --json > lines
python3 "$CASES/json_lines.py" < lines | sort -u
python3 "$CASES/json_lines.py" mode workers lines clock_ghz llc_miss correct < lines
