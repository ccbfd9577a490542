nf bench codec --count many
