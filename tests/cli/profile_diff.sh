cp "$CASES/../../examples/profiles/resnet18_cifar100.json" a.json
sed -e 's/"norm_spike": 10/"norm_spike": 8.5/' -e 's/g_binary"/g_ternary"/' -e 's/"from_step": 2000/"from_step": 3000/' \
    -e 's/{"name": "bias", "names": \["\*.bias"\]}/{"name": "bias", "names": ["*.bias", "*_bias"]}/' a.json > b.json
nf profile diff a.json b.json
