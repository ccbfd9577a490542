cd "$CASES/../../examples"
nf profile check profiles/resnet18_cifar100.json
nf profile check profiles/resnet18_cifar100.json --shapes shapes/resnet18_cifar100.json
