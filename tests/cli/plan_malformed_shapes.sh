echo "{\"name\": \"tiny\", \"parameters\": [" > shapes.json
nf plan --shapes shapes.json
