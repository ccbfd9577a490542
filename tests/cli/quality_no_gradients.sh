nf quality
