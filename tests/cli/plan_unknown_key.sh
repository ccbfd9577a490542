echo "{\"name\": \"tiny\", \"paramters\": []}" > shapes.json
nf plan --shapes shapes.json
