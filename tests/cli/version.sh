nf --version
