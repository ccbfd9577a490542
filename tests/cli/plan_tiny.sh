nf plan --shapes "$CASES/tiny.json" --route "*=bf16" --route "fc.*=fp32" --ranks 4
