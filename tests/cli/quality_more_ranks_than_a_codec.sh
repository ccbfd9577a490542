nf quality --gradients mixture:1 --codec thc --ranks 5000
