nf bench all_reduce --codec fp32,c10d_fp32
