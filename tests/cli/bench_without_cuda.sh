nf bench codec --device cuda
