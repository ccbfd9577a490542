nf bench codec --codec fp32,waterfill:4 --count 1000 --repeat 3
