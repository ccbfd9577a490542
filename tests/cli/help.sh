nf --help
nf help > same
nf --help | diff - same
