nf
