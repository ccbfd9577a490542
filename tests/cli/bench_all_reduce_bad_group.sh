nf bench all_reduce --topology hierarchical --group 3
