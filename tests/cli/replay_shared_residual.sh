nf replay "shapes:$CASES/tiny.json" --reducer shared --workers 2 --codec g_ternary+ef
