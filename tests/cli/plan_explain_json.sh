nf plan --shapes "$CASES/typed.json" --explain --json > lines
python3 "$CASES/json_lines.py" < lines | sort -u
python3 "$CASES/json_lines.py" bucket offset length parameter region route < lines
