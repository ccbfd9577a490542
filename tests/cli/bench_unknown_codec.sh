nf bench codec --codec bf16,waterfil:4 --count 10
