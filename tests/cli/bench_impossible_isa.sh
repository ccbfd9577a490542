nf bench codec --isa mmx --count 10
