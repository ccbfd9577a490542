nf bench
