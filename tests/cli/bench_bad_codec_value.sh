nf bench codec --codec waterfill:many --count 10
