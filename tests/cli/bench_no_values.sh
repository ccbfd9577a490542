nf bench codec --codec fp32,waterfill:4 --count 0 --repeat 1 --json |
  python3 "$CASES/json_lines.py" codec op count bytes gbps
