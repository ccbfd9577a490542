nf profile show "$CASES/../../examples/profiles/resnet18_cifar100.json"
