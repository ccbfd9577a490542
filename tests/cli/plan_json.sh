nf plan --shapes "$CASES/tiny.json" --route "fc.*=bf16" --json > lines
python3 "$CASES/json_lines.py" < lines | sort -u
python3 "$CASES/json_lines.py" route codec ranks parameters values codes_bytes scales_bytes back_bytes bytes < lines
