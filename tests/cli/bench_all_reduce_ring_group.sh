nf bench all_reduce --topology ring --group 3
