nf bench all_reduce --codec bf16,waterfil:4
