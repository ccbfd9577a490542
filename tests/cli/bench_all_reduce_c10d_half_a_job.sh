env -u WORLD_SIZE RANK=0 nf bench all_reduce --transport c10d
