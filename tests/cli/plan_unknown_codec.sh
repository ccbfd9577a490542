nf plan --shapes "$CASES/tiny.json" --route "*=b_16"
