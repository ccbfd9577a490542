printf '%s\n' '{"format": "neuron_fabric.buckets", "version": 1}' '{"step": 0, "valuse": 10, "low_bit_values": 1}' > trace
nf replay trace
