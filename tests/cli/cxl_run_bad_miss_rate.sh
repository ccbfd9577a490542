nf cxl run --llc-miss 1.5
