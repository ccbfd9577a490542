cd "$CASES" && nf profile check tiny.json
