nf help bench codec > helped
nf bench codec --help | diff - helped
nf plan --help
