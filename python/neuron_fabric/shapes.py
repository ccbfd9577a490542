"""Writes the parameters of a model to a file for `nf plan --shapes`.

    nf.write_shapes(model, "model.json")
    python -m neuron_fabric.shapes my_models:make_gpt -o gpt.json
"""

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

import torch
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.model import parameters_of


def write_shapes(model: torch.nn.Module, path: str | os.PathLike, name: str | None = None) -> None:
    """Writes the names, shapes and module types of the parameters that have a gradient, in the order of
    the model, as nf.attach() uses them. The model may be on the meta device.

    name: the name of the model in tables; by default its class.
    """
    Path(path).write_text(shapes_text(model, name), encoding="utf-8")


def shapes_text(model: torch.nn.Module, name: str | None = None) -> str:
    model = getattr(model, "_orig_mod", model)  # set by torch.compile(DDP(...))
    if isinstance(model, DistributedDataParallel):
        model = model.module
    parameters = parameters_of(model)
    if not parameters.names:
        raise ValueError(f"{type(model).__name__} has no parameter with a gradient")
    lines = [
        json.dumps({"name": parameter, "shape": list(tensor.shape), "module_type": kind})
        for parameter, tensor, kind in zip(parameters.names, parameters.tensors,
                                           parameters.module_types, strict=True)
    ]
    head = json.dumps({"name": name or type(model).__name__})[:-1]
    return head + ', "parameters": [\n  ' + ",\n  ".join(lines) + "\n]}\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m neuron_fabric.shapes",
        description="Writes the shapes file of a model, for nf plan --shapes.")
    parser.add_argument("factory", metavar="MODULE:FACTORY",
                        help="a function or class that returns the model when called without arguments, "
                             "on the meta device")
    parser.add_argument("-o", "--output", metavar="FILE", help="the file to write (standard output)")
    parser.add_argument("--name", help="the name of the model (its class)")
    options = parser.parse_args(arguments)
    sys.path.insert(0, os.getcwd())
    try:
        text = shapes_text(_make(options.factory), options.name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        print(f"shapes: {options.factory}: {error}", file=sys.stderr)
        return 1
    if options.output:
        Path(options.output).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


def _make(factory: str) -> torch.nn.Module:
    module, separator, name = factory.partition(":")
    if not separator or not name:
        raise ValueError("write it as MODULE:FACTORY, such as my_models:make_gpt")
    make = importlib.import_module(module)
    for part in name.split("."):
        make = getattr(make, part)
    with torch.device("meta"):  # no memory for weights
        model = make()
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"it returned a {type(model).__name__}, not a torch.nn.Module")
    return model


if __name__ == "__main__":
    sys.exit(main())
