nf bench all_reduce -b 1X
