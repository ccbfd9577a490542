nf profile show "$CASES/calibrated.json" | sed -n '/^provenance/,$p'
