nf bench all_reduce --transport c10d --codec mpi_fp32
