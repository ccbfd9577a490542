cd "$CASES"
nf plan --shapes tiny.json --explain --profile ../../examples/profiles/resnet18_cifar100.json
