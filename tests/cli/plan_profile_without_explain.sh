nf plan --shapes "$CASES/tiny.json" --profile profile.json
