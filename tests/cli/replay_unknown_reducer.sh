nf replay "shapes:$CASES/tiny.json" --reducer tree
