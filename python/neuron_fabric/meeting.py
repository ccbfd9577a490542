"""How ranks find out, before anything else, whether they want the same.

Whatever goes wrong on one rank is raised on all of them: no rank waits for one that has already
failed. Items travel as JSON: a peer's bytes are parsed, never executed.
"""

import itertools
import json
import time
from collections.abc import Callable
from typing import TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")

RELEASE_SECONDS = 1.0
MOST_BYTES = 64 << 20  # of one rank's item


class AttachError(RuntimeError):
    """Ranks that cannot work together; the message says which and why."""


def _gather(group: dist.ProcessGroup, item: object) -> list:
    """Returns every rank's item, by rank; all_gather_object() rejects groups outside the registry."""
    mine = torch.frombuffer(bytearray(json.dumps(item).encode()), dtype=torch.uint8)
    sizes = [int(size) for size in _all_gather(group, torch.tensor([mine.numel()]))]
    for rank, size in enumerate(sizes):
        if not 0 < size <= MOST_BYTES:
            raise AttachError(f"rank {rank} announced an item of {size} bytes; the most is {MOST_BYTES}")
    padded = torch.zeros(max(sizes), dtype=torch.uint8)
    padded[: mine.numel()] = mine
    return [_parse(rank, bytes(item[:size].numpy()))
            for rank, (item, size) in enumerate(zip(_all_gather(group, padded), sizes, strict=True))]


def _parse(rank: int, text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AttachError(f"rank {rank} sent an item that is not JSON: {error}") from error


def _all_gather(group: dist.ProcessGroup, mine: torch.Tensor) -> list[torch.Tensor]:
    everyone = [torch.empty_like(mine) for _ in range(group.size())]
    group.allgather([everyone], [mine]).wait()
    wait_until_released(mine, *everyone)
    return everyone


def wait_until_released(*tensors: torch.Tensor) -> None:
    """Returns once Gloo's thread has released the tensors of a collective. It takes the interpreter's
    lock for that, which aborts a process that ends at that moment, as one does after an error."""
    deadline = time.monotonic() + RELEASE_SECONDS
    while any(tensor._use_count() > 1 for tensor in tensors) and time.monotonic() < deadline:
        time.sleep(1e-4)


def of_rank_0(group: dist.ProcessGroup, item: T) -> T:
    """Returns rank 0's item on every rank. Items are JSON values; tuples come back as lists."""
    return _gather(group, item)[0]


def of_all_ranks(group: dist.ProcessGroup, item: T) -> list[T]:
    """Returns the items of all ranks, by rank, on every rank. Items are JSON values."""
    return _gather(group, item)


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
                mine, theirs = _difference(value, other.get(key))
                raise AttachError(
                    f"rank 0 and rank {rank} differ in {key}: {mine} and {theirs}; all ranks must "
                    "be started alike"
                )


def _difference(first: object, second: object) -> tuple[str, str]:
    """Of long facts only the lines, or elements, that differ first."""
    for one, other in itertools.zip_longest(_parts(first), _parts(second), fillvalue="nothing"):
        if one != other:
            return _short(one), _short(other)
    return _short(first), _short(second)


def _parts(fact: object) -> list[object]:
    if isinstance(fact, str):
        return [line.strip().removesuffix(",") for line in fact.splitlines()]
    return fact if isinstance(fact, list) else [fact]


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
