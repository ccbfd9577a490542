# Software over a link takes what a memory-side reducer does not.
nf replay "shapes:$CASES/tiny.json" --reducer ring --workers 2 --codec g_binary+ef --json |
  python3 "$CASES/json_lines.py" reducer workers codec
