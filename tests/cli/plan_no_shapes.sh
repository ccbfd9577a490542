nf plan
