cd "$CASES/../../examples"
nf profile check profiles/resnet18_cifar100.json --shapes "$CASES/typed.json"
