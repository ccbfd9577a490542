nf bench all_reduce --codec mpi_fp32
