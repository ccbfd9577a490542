echo '{"format": "neuron_fabric.profile", "version": 7, "novelty": true}' > profile.json
nf profile check profile.json
