nf profile show none.json
