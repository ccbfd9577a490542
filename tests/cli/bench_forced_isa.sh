nf bench codec --codec bf16 --isa scalar --dtype bf16 --count 1000 --repeat 1 --json |
  python3 "$CASES/json_lines.py" isa dtype op bytes bits vnmse
