nf bench all_reduce --transport c10d --ranks 0
