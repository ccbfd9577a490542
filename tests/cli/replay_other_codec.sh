nf replay "shapes:$CASES/tiny.json" --codec waterfill:4
