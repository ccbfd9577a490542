echo "{\"name\": \"tiny\", \"parameters\": [{\"name\": \"a\", \"shape\": [4294967296, 4294967296, 4]}]}" > shapes.json
nf plan --shapes shapes.json
