printf "nf_cxl_trace 1\ndevice 8 64 4 16\nw 0 1000 12\n" > trace
nf cxl answers trace
