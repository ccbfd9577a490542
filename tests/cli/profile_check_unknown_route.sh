sed 's/waterfill:5/waterfil:5/' "$CASES/../../examples/profiles/resnet18_cifar100.json" > profile.json
nf profile check profile.json
