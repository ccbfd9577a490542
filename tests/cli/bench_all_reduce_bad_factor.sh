nf bench all_reduce -f 1
