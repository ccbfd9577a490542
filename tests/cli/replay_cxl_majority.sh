nf replay "shapes:$CASES/tiny.json" --codec g_binary+majority
