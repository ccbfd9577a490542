nf quality --gradients mixtures:1
