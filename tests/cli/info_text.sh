nf info | grep -E "^(NEURON|instructions|codec|fp32)"
