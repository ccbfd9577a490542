nf bnch
