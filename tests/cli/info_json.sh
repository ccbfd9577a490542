nf info --json | python3 "$CASES/json_lines.py"
nf info --json | python3 "$CASES/json_lines.py" transports cuda mpi
