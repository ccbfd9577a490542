# What the reducer can take goes into a profile.
nf replay "shapes:$CASES/tiny.json" --workers 8 --profile "$CASES/../../examples/profiles/resnet18_cifar100.json" \
  --write-profile profile.json > /dev/null
nf profile show profile.json | grep -A3 'most_workers'
nf profile check profile.json
