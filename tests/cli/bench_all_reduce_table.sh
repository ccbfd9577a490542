nf bench all_reduce -b 1K -e 4K -f 4 --codec fp32,waterfill:4 --ranks 2 --repeat 3
