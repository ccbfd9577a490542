echo '{"step": 0, "values": 10, "low_bit_values": 0}' > trace
nf replay trace
