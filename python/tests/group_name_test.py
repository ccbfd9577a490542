"""Ranks find each other by a name that rank 0 draws, whatever their processes did before; missing ranks
are named within seconds."""

import logging
import os
import threading
import time
from datetime import timedelta

import neuron_fabric as nf
import pytest
import torch
import torch.distributed as dist
from neuron_fabric.ranks import group_name, rendezvous
from neuron_fabric.ranks.group_name import draw_name
from neuron_fabric.ranks.rendezvous import AttachError
from ranks import on_ranks
from small_job import batches, loss_of, make, wrap


class Group:
    """The part of a process group that draw_name() uses; ranks are threads."""

    group_name = "7"

    def __init__(self, ranks: int) -> None:
        self.ranks, self.own = ranks, threading.local()


@pytest.fixture
def group(monkeypatch):
    monkeypatch.setattr(dist, "get_rank", lambda group: group.own.rank)
    monkeypatch.setattr(dist, "get_world_size", lambda group: group.ranks)
    return Group


def draw(store: dist.Store, group: Group, ranks: list[int], seconds: float = 20) -> list:
    """The names that these ranks get, or the exceptions that they raise; all run concurrently."""
    results: dict[int, object] = {}

    def run(rank: int) -> None:
        group.own.rank = rank
        try:
            results[rank] = draw_name(store, group, seconds)
        except AttachError as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[rank] for rank in ranks]


def test_all_ranks_get_the_same_name_and_a_new_one_each_time(group):
    store, ranks = dist.HashStore(), [0, 1, 2]
    names = [draw(store, group(3), ranks) for _ in range(3)]
    assert all(len(set(of_ranks)) == 1 for of_ranks in names)
    assert len({of_ranks[0] for of_ranks in names}) == 3


def test_the_keys_in_the_store_do_not_grow_with_ranks_and_names(group):
    def keys_after(ranks: int, names: int) -> int:
        store = dist.HashStore()
        for _ in range(names):
            draw(store, group(ranks), list(range(ranks)))
        return store.num_keys()

    assert keys_after(8, 1) == 8 + 1  # a request of each rank, and the mark of the name
    assert keys_after(8, 4) == 8 + 4


def test_a_request_of_a_dead_process_is_ignored(group):
    store = dist.HashStore()
    for rank in range(3):
        store.set(f"neuron_fabric/7/request/{rank}", f"of the dead process of rank {rank}")
    names = draw(store, group(3), [2, 1, 0])
    assert len(set(names)) == 1
    assert isinstance(names[0], str)


def test_missing_ranks_are_named_within_seconds_and_at_the_end(group, monkeypatch, caplog):
    monkeypatch.setattr(group_name, "WARN_SECONDS", 0.2)
    with caplog.at_level(logging.WARNING):
        errors = draw(dist.HashStore(), group(4), [0, 2], seconds=1)
    for error in errors:
        assert isinstance(error, AttachError)
        assert str(error) == ("waited 1 s for ranks 1, 3 to call attach(): every rank of the model's process "
                              "group must call it, not only rank 0")
    assert any("ranks 1, 3 to call attach()" in line for line in caplog.messages)


def with_another_history() -> tuple[bool, int]:
    """Rank 1 as after a restart: its process has not attached a model yet."""
    if dist.get_rank() == 0:
        alone = dist.new_group([0], use_local_synchronization=True)
        for _ in range(3):
            nf.attach(wrap(make(), process_group=alone), route="fp32").close()
    model = wrap(make())
    with nf.attach(model, route="waterfill:4", timeout=30) as fabric:
        loss_of(model, next(batches())).backward()
        return fabric.should_step(), fabric.step


def test_ranks_with_different_histories_find_each_other():
    assert on_ranks(2, with_another_history, fresh=True) == [(True, 1), (True, 1)]


def attach_on_rank_0_alone() -> tuple[str, float]:
    model = wrap(make())
    message, begin = "", time.monotonic()
    if dist.get_rank() == 0:
        with pytest.raises(AttachError) as caught:
            nf.attach(model, timeout=2)
        message = str(caught.value)
    waited = time.monotonic() - begin
    dist.barrier()
    return message, waited


def test_attaching_only_on_rank_0_names_the_missing_ranks():
    message, waited = on_ranks(3, attach_on_rank_0_alone)[0]
    assert "for ranks 1, 2 to call attach(): every rank" in message
    assert waited < 10


def an_interface_that_is_not_there() -> str:
    model = wrap(make())
    os.environ["GLOO_SOCKET_IFNAME"] = "nothere0"
    try:
        with pytest.raises(AttachError) as caught:
            nf.attach(model, timeout=5)
    finally:
        del os.environ["GLOO_SOCKET_IFNAME"]
    return str(caught.value)


def test_an_interface_that_gloo_cannot_use_is_named():
    for rank, message in enumerate(on_ranks(2, an_interface_that_is_not_there, fresh=True)):
        assert message.startswith(f"rank {rank} could not connect to its peers over Gloo")
        assert "GLOO_SOCKET_IFNAME is 'nothere0'. Set it to the interface" in message


class Peers:
    """A group whose ranks send these bytes."""

    def __init__(self, monkeypatch, *items: bytes, sizes: list[int] | None = None) -> None:
        self.items, self.sizes, self.gathers = items, sizes or [len(item) for item in items], 0
        rounds = iter((self.announce, self.send))
        monkeypatch.setattr(rendezvous, "_all_gather", lambda _group, _mine: next(rounds)())

    def announce(self) -> list[torch.Tensor]:
        room = rendezvous.INLINE_BYTES
        return self.tensors([size.to_bytes(8, "little", signed=True) + item[:room].ljust(room)
                             for size, item in zip(self.sizes, self.items, strict=True)])

    def send(self) -> list[torch.Tensor]:
        return self.tensors([item.ljust(max(self.sizes)) for item in self.items])

    def tensors(self, messages: list[bytes]) -> list[torch.Tensor]:
        self.gathers += 1
        return [torch.frombuffer(bytearray(message), dtype=torch.uint8) for message in messages]


@pytest.mark.parametrize("size, gathers", [(1, 1), (rendezvous.INLINE_BYTES - 2, 1),
                                           (rendezvous.INLINE_BYTES - 1, 2), (100_000, 2)])
def test_only_long_items_take_a_second_gather(monkeypatch, size, gathers):
    peers = Peers(monkeypatch, b'""', b'"' + size * b"x" + b'"')
    assert rendezvous.gather_all(peers, "") == ["", size * "x"]
    assert peers.gathers == gathers


@pytest.mark.parametrize("hostile", [
    b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.", b"{", b"\xff\xfe", b"[" * 100_000])
def test_bytes_of_a_peer_that_are_not_json_are_rejected(monkeypatch, hostile):
    with pytest.raises(AttachError, match="rank 1 sent an item that is not JSON"):
        rendezvous.gather_all(Peers(monkeypatch, b"{}", hostile), {})


@pytest.mark.parametrize("size", [0, -1, rendezvous.MAX_ITEM_BYTES + 1, 1 << 60])
def test_invalid_sizes_of_a_peer_are_rejected(monkeypatch, size):
    with pytest.raises(AttachError, match=f"rank 1 announced an item of {size} bytes"):
        rendezvous.gather_all(Peers(monkeypatch, b"{}", b"{}", sizes=[2, size]), {})


def facts_of(rank: int, differing: int | None) -> dict[str, object]:
    return {"the seed": 3, "the profile": "\n".join(f"line {i}" for i in range(500))
            + ("\nanother line" if rank == differing else "")}


def agree_and_count(differing: int | None) -> tuple[str | None, int]:
    """The error of agree(), and the bytes that this rank put into its gathers."""
    sent, gather = [], rendezvous._all_gather

    def counted(group: dist.ProcessGroup, mine: torch.Tensor) -> list[torch.Tensor]:
        sent.append(mine.numel())
        return gather(group, mine)

    rendezvous._all_gather = counted
    try:
        rendezvous.agree(dist.group.WORLD, facts_of(dist.get_rank(), differing))
    except AttachError as error:
        return str(error), sum(sent)
    finally:
        rendezvous._all_gather = gather
    return None, sum(sent)


def test_ranks_that_agree_exchange_only_hashes():
    for error, sent in on_ranks(3, agree_and_count, None):
        assert error is None
        assert sent <= 8 + rendezvous.INLINE_BYTES


def test_ranks_that_differ_exchange_the_facts_and_name_the_difference():
    for error, sent in on_ranks(3, agree_and_count, 2):
        assert error == ("rank 0 and rank 2 differ in the profile: nothing and another line; start all "
                         "ranks with the same configuration")
        assert sent > len(facts_of(0, None)["the profile"])


def test_facts_that_are_equal_but_spelled_differently_agree(monkeypatch):
    items = iter([["a", "b"], [{"x": 1.0, "y": 2}, {"y": 2, "x": 1}]])
    monkeypatch.setattr(rendezvous, "gather_all", lambda _group, _item: next(items))
    rendezvous.agree(None, {"x": 1.0, "y": 2})
    assert next(items, None) is None


def agree_without_rank_1_after_the_hashes() -> tuple[str | None, float]:
    """Rank 1 does not join the gather of the facts."""
    group = dist.new_group(timeout=timedelta(seconds=2))
    gather, gathers = rendezvous._all_gather, []

    def interrupted(group: dist.ProcessGroup, mine: torch.Tensor) -> list[torch.Tensor]:
        gathers.append(mine)
        if dist.get_rank() == 1 and len(gathers) == 2:
            raise RuntimeError("rank 1 has ended")
        return gather(group, mine)

    begin = time.monotonic()
    rendezvous._all_gather = interrupted
    try:
        rendezvous.agree(group, facts_of(dist.get_rank(), 1))
    except RuntimeError as error:
        return str(error), time.monotonic() - begin
    finally:
        rendezvous._all_gather = gather
    return None, time.monotonic() - begin


def test_a_rank_that_ends_after_the_hashes_is_noticed_within_the_timeout():
    for error, waited in on_ranks(3, agree_without_rank_1_after_the_hashes, fresh=True):
        assert error is not None
        assert waited < 30
