nf bench all_reduce --transport c10d --topology hierarchical --group 3
