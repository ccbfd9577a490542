"""The name of a new process group: drawn by rank 0 and passed to the other ranks through the job's store.

A counter in each process would not work: a restarted rank counts from zero while the other ranks
continue. Instead every rank posts a request with a nonce. Rank 0 answers each nonce with the name and
waits until all ranks have received it. A request left behind by a dead process is also answered; that
answer is never read.
"""

import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator

import torch.distributed as dist

from neuron_fabric.ranks.rendezvous import AttachError

logger = logging.getLogger(__name__)

WARN_SECONDS = 5.0  # until the first warning about missing ranks; then 10, 20, 40, ...
_SLEEP_SECONDS = (0.001, 0.05)  # between polls of the store: initially, at most
_SHOWN_RANKS = 16
_NONE = "-"  # no request: the rank has received its name


class _Requests:
    """The requests of all ranks of one group, in the store."""

    def __init__(self, store: dist.Store, group: str, ranks: int) -> None:
        self._store, self._prefix, self._ranks = store, f"neuron_fabric/{group}", ranks

    def post(self, rank: int, nonce: str) -> None:
        self._store.set(f"{self._prefix}/request/{rank}", nonce)

    def withdraw(self, rank: int) -> None:
        self.post(rank, _NONE)

    def nonce_of(self, rank: int) -> str | None:
        nonce = self._read(f"{self._prefix}/request/{rank}")
        return None if nonce in (None, _NONE) else nonce

    def answer(self, nonce: str, name: str) -> None:
        self._store.set(f"{self._prefix}/answer/{nonce}", name)

    def answer_to(self, nonce: str) -> str | None:
        return self._read(f"{self._prefix}/answer/{nonce}")

    def mark(self, name: str, what: object) -> None:
        self._store.set(f"{self._prefix}/{name}/{what}", "1")

    def is_marked(self, name: str, what: object) -> bool:
        return self._store.check([f"{self._prefix}/{name}/{what}"])

    def clear(self, name: str, nonces: Iterable[str], marked: Iterable[object]) -> None:
        """Deletes answers and marks, so that the store does not grow by keys of every rank with every
        attach(). A no-op with stores that cannot delete keys."""
        with contextlib.suppress(RuntimeError, NotImplementedError):
            for nonce in nonces:
                self._store.delete_key(f"{self._prefix}/answer/{nonce}")
            for what in marked:
                self._store.delete_key(f"{self._prefix}/{name}/{what}")

    def missing(self) -> list[int]:
        return [rank for rank in range(self._ranks) if self.nonce_of(rank) is None]

    def _read(self, key: str) -> str | None:
        # get() would block until the key exists.
        return self._store.get(key).decode() if self._store.check([key]) else None


def draw_name(store: dist.Store, group: dist.ProcessGroup, seconds: float) -> str:
    """Returns a name that is the same on all ranks and new in the job. All ranks of the group call it.

    If ranks are missing, logs their numbers after a few seconds and raises AttachError after `seconds`.
    """
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    requests, nonce = _Requests(store, group.group_name, ranks), uuid.uuid4().hex
    requests.post(rank, nonce)
    if rank == 0:
        name = _hand_out(requests, ranks, f"neuron_fabric/{nonce}", seconds)
    else:
        name = _ask_for(requests, rank, nonce, seconds)
    requests.withdraw(rank)
    return name


def _hand_out(requests: _Requests, ranks: int, name: str, seconds: float) -> str:
    answered: dict[int, str | None] = dict.fromkeys(range(1, ranks))
    nonces: list[str] = []
    for _ in _waiting(lambda: sorted(answered), seconds):
        for rank in list(answered):
            nonce = requests.nonce_of(rank)
            if nonce is not None and nonce != answered[rank]:
                requests.answer(nonce, name)
                answered[rank] = nonce
                nonces.append(nonce)
            if requests.is_marked(name, rank):
                del answered[rank]
        if not answered:
            break
    requests.mark(name, "all")
    # All ranks have read their answers, and only this rank reads the marks.
    requests.clear(name, nonces, range(1, ranks))
    return name


def _ask_for(requests: _Requests, rank: int, nonce: str, seconds: float) -> str:
    name = None
    for _ in _waiting(requests.missing, seconds):
        if name is None and (name := requests.answer_to(nonce)) is not None:
            requests.mark(name, rank)
        if name is not None and requests.is_marked(name, "all"):
            return name
    raise AssertionError("unreachable: _waiting() ends by raising")


def _waiting(missing: Callable[[], list[int]], seconds: float) -> Iterator[None]:
    """Yields between short sleeps. Warns of missing ranks; raises AttachError after `seconds`."""
    begin, warn_at, sleep = time.monotonic(), WARN_SECONDS, _SLEEP_SECONDS[0]
    while True:
        yield
        waited = time.monotonic() - begin
        if waited >= seconds:
            raise AttachError(_message(missing(), waited))
        if waited >= warn_at:
            warn_at *= 2
            if ranks := missing():
                logger.warning("%s", _message(ranks, waited))
        time.sleep(min(sleep, seconds - waited))
        sleep = min(2 * sleep, _SLEEP_SECONDS[1])


def _message(ranks: list[int], waited: float) -> str:
    shown = ", ".join(map(str, ranks[:_SHOWN_RANKS]))
    more = f" and {len(ranks) - _SHOWN_RANKS} more" if len(ranks) > _SHOWN_RANKS else ""
    names = f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}" if ranks else "the other ranks"
    return (f"waited {waited:.0f} s for {names} to call attach(): every rank of the model's process group "
            "must call it, not only rank 0")
