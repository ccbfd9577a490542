nf quality --gradients mixture:one
