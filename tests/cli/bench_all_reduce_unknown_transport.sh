nf bench all_reduce --transport tcp
