"""Files of gradients, in the form that `nf quality --gradients` reads."""

import json
import os
from math import prod
from pathlib import Path

import numpy as np


def dump_bytes(parameters, ranks):
    """What one file of gradients takes, its header aside."""
    return 4 * ranks * sum(prod(shape) for _, shape in parameters)


def write_dump(path, model, parameters, ranks, rows):
    """Writes `path`, FILE.npy, float32 of shape (ranks, elements), and the parameters to FILE.json.

    parameters: (name, shape) of each, in the order in which a row holds them. rows: for each rank
    its arrays, one a parameter; one rank is held at a time where `rows` is a generator. FILE.npy
    appears under its name only once it is whole.
    """
    path = Path(path)
    parameters = [(name, tuple(shape)) for name, shape in parameters]
    elements = sum(prod(shape) for _, shape in parameters)
    header = {"descr": "<f4", "fortran_order": False, "shape": (ranks, elements)}
    partial = path.with_suffix(".partial")
    try:
        # Not a memory map: a full disk must be an OSError here, not a signal.
        with open(partial, "wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            written = 0
            for row in rows:
                write_row(file, parameters, row)
                written += 1
        if written != ranks:
            raise ValueError(f"{path}: {written} rows for {ranks} ranks")
        path.with_suffix(".json").write_text(shapes_text(model, parameters))
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_row(file, parameters, row):
    for (name, shape), values in zip(parameters, row, strict=True):
        values = np.asarray(values, dtype="<f4", order="C")
        if values.shape != shape:
            raise ValueError(f"the gradient of {name} has shape {values.shape}, not {shape}")
        file.write(values.data)


def shapes_text(model, parameters):
    lines = [json.dumps({"name": name, "shape": list(shape)}) for name, shape in parameters]
    return f'{{"name": {json.dumps(model)}, "parameters": [\n  ' + ",\n  ".join(lines) + "\n]}\n"
