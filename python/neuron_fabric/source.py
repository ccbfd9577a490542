"""Gradient sources: the wrappers and callers that pass gradients to the runtime."""

from collections.abc import Callable
from dataclasses import dataclass

from neuron_fabric.model import ModelParameters


@dataclass(frozen=True)
class Source:
    """What a session needs to know of a source, besides its buckets.

    kind: "ddp", "hsdp", "replicate" or "reducer". All ranks must have the same one.
    model: the class of the model, for the records.
    parameters: returns the parameters of this rank.
    """

    kind: str
    model: str
    parameters: Callable[[], ModelParameters]
