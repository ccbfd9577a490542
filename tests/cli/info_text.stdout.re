NEURON-Fabric [0-9.]+
instructions  \w+ \(this machine runs: .*scalar; NF_FORCE_ISA chooses\)
codec +example +kind +what it is
fp32 +fp32 +dense +32 bits, exact
