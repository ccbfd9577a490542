# What was printed reads back, and prints the same again.
profile=$CASES/../../examples/profiles/resnet18_cifar100.json
nf profile show --json "$profile" | diff - "$profile"
