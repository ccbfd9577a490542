#!/usr/bin/env python3
"""Prints the parameters of a ResNet-18 for CIFAR-100, in the form that `nf plan --shapes` reads.

Names, shapes, module types and order are torchvision's, with the 3x3 stem that 32x32 images want:
    scripts/resnet18_shapes.py > examples/shapes/resnet18_cifar100.json
"""

import json
from math import prod

CLASSES = 100
WIDTHS = [64, 128, 256, 512]


def norm(name, width):
    return [(f"{name}.weight", [width]), (f"{name}.bias", [width])]


def block(name, inputs, outputs):
    yield f"{name}.conv1.weight", [outputs, inputs, 3, 3]
    yield from norm(f"{name}.bn1", outputs)
    yield f"{name}.conv2.weight", [outputs, outputs, 3, 3]
    yield from norm(f"{name}.bn2", outputs)
    if inputs != outputs:
        yield f"{name}.downsample.0.weight", [outputs, inputs, 1, 1]
        yield from norm(f"{name}.downsample.1", outputs)


def resnet18():
    yield "conv1.weight", [WIDTHS[0], 3, 3, 3]
    yield from norm("bn1", WIDTHS[0])
    inputs = WIDTHS[0]
    for layer, width in enumerate(WIDTHS, 1):
        yield from block(f"layer{layer}.0", inputs, width)
        yield from block(f"layer{layer}.1", width, width)
        inputs = width
    yield "fc.weight", [CLASSES, inputs]
    yield "fc.bias", [CLASSES]


def module_type(name, shape):
    if name.startswith("fc."):
        return "Linear"
    return "Conv2d" if len(shape) == 4 else "BatchNorm2d"


def main():
    parameters = list(resnet18())
    assert sum(prod(shape) for _, shape in parameters) == 11_220_132
    lines = [json.dumps({"name": name, "shape": shape, "module_type": module_type(name, shape)})
             for name, shape in parameters]
    print('{"name": "resnet18_cifar100", "parameters": [\n  ' + ",\n  ".join(lines) + "\n]}")


if __name__ == "__main__":
    main()
