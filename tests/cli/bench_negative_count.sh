nf bench codec --count -1
