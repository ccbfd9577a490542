"""Files of gradients in the format of `nf quality --gradients`."""

import json
import os
from math import prod
from pathlib import Path

import numpy as np


def dump_bytes(parameters, ranks):
    """The size of one file of gradients, without its header."""
    return 4 * ranks * sum(prod(shape) for _, shape in parameters)


def write_dump(path, model, parameters, ranks, rows):
    """Writes `path`, FILE.npy, float32 of shape (ranks, elements), and the parameters to FILE.json.

    parameters: (name, shape) of each, in the order of the rows. rows: for each rank a list of arrays,
    one per parameter; pass a generator to keep only one rank in memory. FILE.npy gets its final name
    only after it is complete.
    """
    path = Path(path)
    parameters = [(name, tuple(shape)) for name, shape in parameters]
    elements = sum(prod(shape) for _, shape in parameters)
    header = {"descr": "<f4", "fortran_order": False, "shape": (ranks, elements)}
    partial = path.with_suffix(".partial")
    try:
        # Not a memory map: a full disk must raise OSError, not a signal.
        with open(partial, "wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            written = 0
            for row in rows:
                write_row(file, parameters, row)
                written += 1
        if written != ranks:
            raise ValueError(f"{path}: got {written} rows for {ranks} ranks")
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
