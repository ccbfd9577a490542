"""Gradient sources: the wrappers and callers that pass gradients to the runtime."""

from collections.abc import Callable
from dataclasses import dataclass

from neuron_fabric.model import ModelParameters

DEFAULT_BUCKET_BYTES = 25 << 20  # of DDP


@dataclass(frozen=True)
class Source:
    """What a session needs to know of a source, besides its buckets.

    kind: "ddp", "fsdp2", "hsdp", "replicate" or "reducer". All ranks must have the same one.
    model: the class of the model, for the records.
    parameters: returns the parameters of this rank; if the source scatters, the whole parameters.
    collective: what the source needs of every bucket.
    bucket_bytes: about how large its buckets are; None if one has all gradients.
    """

    kind: str
    model: str
    parameters: Callable[[], ModelParameters]
    collective: str = "all_reduce"
    bucket_bytes: int | None = DEFAULT_BUCKET_BYTES
