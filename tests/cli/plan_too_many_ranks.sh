nf plan --shapes "$CASES/tiny.json" --route "*=thc" --ranks 5000
