nf plan --shapes "$CASES/tiny.json" --explain --route "*=fp32"
