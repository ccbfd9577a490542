nf plan --shapes "$CASES/typed.json" --explain
