NF_FORCE_ISA=scalar nf info --json | python3 "$CASES/json_lines.py" isa
