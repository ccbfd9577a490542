nf help bnch
