# Defaults that are written out are no difference.
cat > short.json <<END
{"format": "neuron_fabric.profile", "version": 1, "name": "a", "regions": [{"name": "all"}],
 "phases": [{"from_step": 0, "routes": {"all": "fp32"}}]}
END
nf profile show --json short.json > long.json
nf profile diff short.json long.json
