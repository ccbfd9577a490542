nf bench all_reduce --topology hierarchical
