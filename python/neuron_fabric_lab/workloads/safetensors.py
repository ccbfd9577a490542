"""Reads weights in the safetensors format: the length of a header, the header, the bytes."""

import json
import math
import struct
from pathlib import Path

import torch

from .data import DataError

_TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    """All floating-point tensors, as FP32. Raises DataError."""
    try:
        data = bytearray(path.read_bytes())
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + length])
        begin = 8 + length
        return {name: _tensor(data, begin, entry) for name, entry in header.items()
                if name != "__metadata__" and entry["dtype"] in _TYPES}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise DataError(f"{path} has no weights: {error}") from error


def _tensor(data: bytearray, begin: int, entry: dict) -> torch.Tensor:
    first, last = entry["data_offsets"]
    kind, count = _TYPES[entry["dtype"]], math.prod(entry["shape"])
    if not 0 <= first <= last <= len(data) - begin or count * kind.itemsize != last - first:
        raise ValueError("a tensor is outside of the file")
    values = torch.frombuffer(data, dtype=kind, count=count, offset=begin + first)
    return values.reshape(entry["shape"]).float()
