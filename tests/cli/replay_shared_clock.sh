nf replay "shapes:$CASES/tiny.json" --reducer shared --workers 2 --clock-ghz 0.01
