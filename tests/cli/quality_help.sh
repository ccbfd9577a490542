nf quality --help
