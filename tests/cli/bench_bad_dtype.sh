nf bench codec --dtype fp8
