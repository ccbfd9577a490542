nf bench codec --cuont 5
