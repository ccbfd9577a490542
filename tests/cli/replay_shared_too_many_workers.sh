nf replay "shapes:$CASES/tiny.json" --reducer shared --workers 65
