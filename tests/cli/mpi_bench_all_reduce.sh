# Ranks as processes: rank 0 alone prints, MPI_Allreduce itself among the rows. Open MPI wants to be
# told twice that root may run it, and leaks.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0
mpirun --oversubscribe -n 3 nf bench all_reduce --transport mpi -b 4K -e 4K \
  --codec mpi_fp32,mpi_16bit,fp32,waterfill:4 --repeat 2 --dtype bf16 --json |
  python3 "$CASES/json_lines.py" count codec topology transport ranks dtype wrong
