nf bench all_reduce --ranks 0
