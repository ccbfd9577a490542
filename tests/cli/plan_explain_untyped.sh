nf plan --shapes "$CASES/untyped.json" --explain
