# Whole numbers are summed exactly, whatever the type of the values; one rank has nothing to send.
for ranks in 1 5; do
  nf bench all_reduce -b 10000 -e 10000 --codec fp32,bf16 --dtype bf16 --ranks $ranks --repeat 1 --json
done | python3 "$CASES/json_lines.py" codec ranks dtype count wire_bytes vnmse wrong
