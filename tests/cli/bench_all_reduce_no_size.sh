nf bench all_reduce -b 4M -e 1M
