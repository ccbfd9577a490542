# The second phase, in buckets of 1 and 25 MiB.
cd "$CASES/../../examples"
nf plan --shapes shapes/resnet18_cifar100.json --explain --profile profiles/resnet18_cifar100.json --step 2000
