"""How ranks find out, before anything else, whether they want the same.

Whatever goes wrong on one rank is raised on all of them: nobody waits for a rank that has already
given up.
"""

from collections.abc import Callable
from typing import TypeVar

import torch.distributed as dist

T = TypeVar("T")


class AttachError(RuntimeError):
    """Ranks that cannot work together; the message says which and why."""


def _gather(group: dist.ProcessGroup, item: object) -> list:
    items = [None] * dist.get_world_size(group)
    dist.all_gather_object(items, item, group=group)
    return items


def together(group: dist.ProcessGroup, work: Callable[[], T]) -> T:
    """Does `work` on every rank. Where it fails on one, it fails on all, with that rank's words."""
    result, error = None, None
    try:
        result = work()
    except Exception as caught:  # every kind: the others must hear of it
        error = caught
    told = _gather(group, None if error is None else str(error))
    if error is not None:
        raise error
    for rank, message in enumerate(told):
        if message is not None:
            raise AttachError(f"rank {rank} could not attach: {message}")
    return result


def agree(group: dist.ProcessGroup, facts: dict[str, object]) -> None:
    """Raises on every rank where the facts differ, naming the first difference."""
    everyone = _gather(group, facts)
    for key, value in everyone[0].items():
        for rank, other in enumerate(everyone):
            if other.get(key) != value:
                raise AttachError(
                    f"rank 0 and rank {rank} differ in {key}: {_short(value)} and "
                    f"{_short(other.get(key))}; all ranks must be started alike"
                )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
