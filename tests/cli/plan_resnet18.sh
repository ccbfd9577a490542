# Published: 3.6 to 5.4 % of FP32 with the head dense, at 1 and at 1.6 bits a value.
shapes=$CASES/../../examples/shapes/resnet18_cifar100.json
nf plan --shapes "$shapes" --json |
  python3 "$CASES/json_lines.py" route codec parameters values codes_ratio
nf plan --shapes "$shapes" --route "*=g_ternary" --route "fc.*=fp32" --json |
  python3 "$CASES/json_lines.py" route codec parameters values codes_ratio
