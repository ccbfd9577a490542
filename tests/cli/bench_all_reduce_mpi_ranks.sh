nf bench all_reduce --transport mpi --ranks 3
