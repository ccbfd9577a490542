nf quality --gradients gaussian:1 --ranks 3 --elements 5000 --codec fp32,waterfill:4 --topology ring,tree
