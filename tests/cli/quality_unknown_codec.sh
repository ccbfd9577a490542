nf quality --gradients mixture:1 --codec waterfall:4
