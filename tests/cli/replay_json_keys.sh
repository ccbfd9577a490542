# What readers of the lines rely on; equal buckets are one line.
cat > trace <<'END'
{"format": "neuron_fabric.buckets", "version": 1, "name": "two steps", "workers": 4}
{"step": 0, "values": 262144, "low_bit_values": 210844}
{"step": 0, "values": 1000000, "low_bit_values": 1000000}
{"step": 1, "values": 262144, "low_bit_values": 210844}
{"step": 1, "values": 1000000, "low_bit_values": 0}
END
for reducer in ring endpoint cxl shared; do nf replay trace --reducer $reducer --json; done > lines
python3 "$CASES/json_lines.py" < lines | sort -u
python3 "$CASES/json_lines.py" reducer workers bucket_bytes low_bit_values buckets < lines
