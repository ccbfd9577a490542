# What readers of the lines rely on: the keys, the order of the cases, and figures that do not depend
# on time.
nf bench all_reduce -b 4K -e 64K -f 16 --codec fp32,g_binary --topology ring,direct --ranks 3 \
  --repeat 2 --json > lines
python3 "$CASES/json_lines.py" < lines | sort -u
python3 "$CASES/json_lines.py" size count codec topology transport ranks wire_bytes wrong dtype repeat < lines
