sed 's/norm_spike/norm_spik/' "$CASES/../../examples/profiles/resnet18_cifar100.json" > profile.json
nf profile check profile.json
