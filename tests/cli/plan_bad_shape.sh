echo "{\"name\": \"tiny\", \"parameters\": [{\"name\": \"a\", \"shape\": [2, -1]}]}" > shapes.json
nf plan --shapes shapes.json
