nf bench all_reduce --topology rnig
