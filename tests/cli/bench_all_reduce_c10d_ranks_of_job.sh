RANK=0 WORLD_SIZE=2 nf bench all_reduce --transport c10d --ranks 3
