echo "{\"name\": \"tiny\", \"parameters\": [{\"name\": \"a\", \"shape\": [1]}, {\"name\": \"a\", \"shape\": [1]}]}" > shapes.json
nf plan --shapes shapes.json
