printf '%s\n' '{"format": "neuron_fabric.buckets", "version": 1}' '{"step": 0, "values": 10, "low_bit_values": 11}' > trace
nf replay trace
