nf plan --shapes none.json
