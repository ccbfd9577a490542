nf replay "shapes:$CASES/tiny.json" --measure
