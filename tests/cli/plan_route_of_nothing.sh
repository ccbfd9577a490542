nf plan --shapes "$CASES/tiny.json" --route "fc.wieght=bf16"
