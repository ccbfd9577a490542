"""Small collectives over JSON values, with which ranks agree before training starts.

A failure on one rank is raised on all ranks, so no rank waits for a rank that has already failed. A
peer's bytes are parsed as JSON, never executed.
"""

import hashlib
import itertools
import json
import time
from collections.abc import Callable
from typing import TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")

RELEASE_SECONDS = 1.0
MAX_ITEM_BYTES = 64 << 20  # per rank
INLINE_BYTES = 120  # of an item that travels with its size
_SIZE_BYTES = 8


class AttachError(RuntimeError):
    """Ranks that cannot work together. The message names the rank and the reason."""


def gather_all(group: dist.ProcessGroup, item: T) -> list[T]:
    """Returns the items of all ranks, by rank, on every rank. Items are JSON values; tuples are returned
    as lists."""
    # all_gather_object() rejects groups outside the registry.
    mine = json.dumps(item).encode()
    head = len(mine).to_bytes(_SIZE_BYTES, "little", signed=True) + mine[:INLINE_BYTES].ljust(INLINE_BYTES)
    heads = _gather_bytes(group, head)
    sizes = [int.from_bytes(of_rank[:_SIZE_BYTES], "little", signed=True) for of_rank in heads]
    for rank, size in enumerate(sizes):
        if not 0 < size <= MAX_ITEM_BYTES:
            raise AttachError(f"rank {rank} announced an item of {size} bytes; the limit is "
                              f"{MAX_ITEM_BYTES}")
    if max(sizes) <= INLINE_BYTES:
        items = [of_rank[_SIZE_BYTES:] for of_rank in heads]
    else:
        items = _gather_bytes(group, mine.ljust(max(sizes)))
    return [_parse(rank, of_rank[:size])
            for rank, (of_rank, size) in enumerate(zip(items, sizes, strict=True))]


def broadcast_from_rank_0(group: dist.ProcessGroup, item: T) -> T:
    """Returns rank 0's item on every rank. Items are JSON values; tuples are returned as lists."""
    return gather_all(group, item)[0]


def run_on_all_ranks(group: dist.ProcessGroup, work: Callable[[], T], action: str = "attach()") -> T:
    """Runs `work` on every rank and returns this rank's result. If it fails on one rank, all ranks
    raise; the other ranks name the rank, the action and the reason."""
    result, error = None, None
    try:
        result = work()
    except Exception as caught:  # any exception: the other ranks wait
        error = caught
    messages = gather_all(group, None if error is None else str(error))
    if error is not None:
        raise error
    for rank, message in enumerate(messages):
        if message is not None:
            raise AttachError(f"{action} failed on rank {rank}: {message}")
    return result


def agree(group: dist.ProcessGroup, facts: dict[str, object]) -> None:
    """Raises AttachError on every rank if the facts differ between ranks, naming the first difference.
    Ranks exchange a hash of their facts, and the facts only if the hashes differ."""
    if len(set(gather_all(group, hashlib.sha256(json.dumps(facts).encode()).hexdigest()))) == 1:
        return
    of_ranks = gather_all(group, facts)
    for key, value in of_ranks[0].items():
        for rank, other in enumerate(of_ranks):
            if other.get(key) != value:
                mine, theirs = _difference(value, other.get(key))
                raise AttachError(
                    f"rank 0 and rank {rank} differ in {key}: {mine} and {theirs}; start all ranks "
                    "with the same configuration"
                )


def wait_until_released(*tensors: torch.Tensor) -> None:
    """Returns once Gloo's thread has released the tensors of a collective. The thread takes the
    interpreter's lock to release them, which aborts a process that exits at that moment, for example
    after an error."""
    deadline = time.monotonic() + RELEASE_SECONDS
    while any(tensor._use_count() > 1 for tensor in tensors) and time.monotonic() < deadline:
        time.sleep(1e-4)


def _gather_bytes(group: dist.ProcessGroup, mine: bytes) -> list[bytes]:
    tensors = _all_gather(group, torch.frombuffer(bytearray(mine), dtype=torch.uint8))
    return [tensor.numpy().tobytes() for tensor in tensors]


def _all_gather(group: dist.ProcessGroup, mine: torch.Tensor) -> list[torch.Tensor]:
    gathered = [torch.empty_like(mine) for _ in range(group.size())]
    group.allgather([gathered], [mine]).wait()
    wait_until_released(mine, *gathered)
    return gathered


def _parse(rank: int, text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AttachError(f"rank {rank} sent an item that is not JSON: {error}") from error


def _difference(first: object, second: object) -> tuple[str, str]:
    """The first line, or the first element, in which two facts differ."""
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
