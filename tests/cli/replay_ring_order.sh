nf replay "shapes:$CASES/tiny.json" --reducer ring --order apart
