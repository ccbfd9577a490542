"""The state of a Fabric in checkpoints of torch.distributed.checkpoint: the same ranks resume to the bit;
with another layout decisions and statistics carry over and error feedback is reset."""

import functools
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from checkpoint_job import DDP, FSDP2, HSDP, LOW_BIT_HSDP, REPLICATE, Layout, load, ranks_of, save
from ranks import on_ranks


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Callable[[Layout], tuple[Path, list]]:
    """The folder of a checkpoint, and what its ranks returned."""
    @functools.cache
    def make_one(layout: Layout) -> tuple[Path, list]:
        folder = tmp_path_factory.mktemp("checkpoint")
        return folder, on_ranks(ranks_of(layout), save, layout, folder)

    return make_one


def assert_resumed(saved: list, loaded: list) -> None:
    for (contents_then, parameters_then), now in zip(saved, loaded, strict=True):
        for state, residuals in contents_then:
            assert residuals
            assert state["pending"]["losses"] == 1
        assert now["contents"] == contents_then
        assert now["warned"] == []
        for one, other in zip(parameters_then, now["final"], strict=True):
            assert torch.equal(one, other)
    for job in range(len(saved[0][0])):
        assert saved[0][0][job][1] != saved[1][0][job][1], "each rank has its own residuals"


@pytest.mark.parametrize("layout", [DDP, HSDP, LOW_BIT_HSDP, REPLICATE, FSDP2], ids=lambda layout: layout[0])
def test_the_same_ranks_resume_to_the_bit(checkpoint, layout):
    folder, saved = checkpoint(layout)
    assert_resumed(saved, on_ranks(ranks_of(layout), load, layout, folder))


def test_a_checkpoint_of_async_save_and_a_storage_reader(tmp_path):
    saved = on_ranks(2, save, DDP, tmp_path, "async_save")
    assert_resumed(saved, on_ranks(2, load, DDP, tmp_path, use_reader=True))


def test_every_rank_writes_its_own_part_and_shared_parts_are_written_once(checkpoint):
    folder, _ = checkpoint(HSDP)
    metadata = pickle.loads((folder / ".metadata").read_bytes())
    files = {index.fqn: place.relative_path for index, place in metadata.storage_data.items()}
    own = {"fabric.neuron_fabric"}
    for shard in range(2):
        own.add(f"fabric.shards.{shard}.decisions")
        for replica in range(2):
            part = f"fabric.shards.{shard}.ranks.{replica}"
            own |= {f"{part}.own", f"{part}.values"}
            assert files[f"{part}.values"].startswith(f"__{2 * replica + shard}_")
    assert own == {name for name in files if name.startswith("fabric.")}


@pytest.mark.parametrize(("before", "after", "words"), [
    (DDP, ("ddp", 3, 1), "the state is from ddp on 2 ranks and this job is ddp on 3 ranks"),
    (DDP, ("ddp", 1, 1), "the state is from ddp on 2 ranks and this job is ddp on 1 rank"),
    (REPLICATE, ("replicate", 4, 1), "and this job is replicate on 4 ranks"),
    (HSDP, ("hsdp", 2, 1), "the state is from hsdp on 2 replicas of 2 shards and this job is hsdp on 2 ranks"),
    (HSDP, ("hsdp", 1, 2), "and this job is hsdp on 1 replica of 2 shards"),
    (HSDP, ("hsdp", 1, 4), "and this job is hsdp on 1 replica of 4 shards"),
    (HSDP, ("ddp", 4, 1), "and this job is ddp on 4 ranks"),
    (DDP, HSDP, "the state is from ddp on 2 ranks and this job is hsdp on 2 replicas of 2 shards"),
    (DDP, REPLICATE, "and this job is replicate on 2 ranks"),
    (FSDP2, ("fsdp2", 3, 1), "the state is from fsdp2 on 2 ranks and this job is fsdp2 on 3 ranks"),
    (HSDP, ("fsdp2", 4, 1), "and this job is fsdp2 on 4 ranks"),
])
def test_another_layout_keeps_decisions_and_resets_error_feedback(checkpoint, before, after, words):
    folder, saved = checkpoint(before)
    results = on_ranks(ranks_of(after), load, after, folder)
    for rank, result in enumerate(results):
        shard = rank % after[2] * before[2] // after[2]
        [(then, residuals)] = saved[shard][0]
        [(now, kept)] = result["contents"]
        assert kept == []
        assert now == then | {"pending": {"loss": 0.0, "losses": 0, "capacity_breach": False}, "ranks": after[1]}
        [message] = result["warned"]
        assert message.endswith(f"{words}: the error feedback of {len(residuals)} tensors is reset")
        assert result["notice"] in message


WITHIN_CHANGED = "within_replicas has changed: the state within replicas is not loaded"


@pytest.mark.parametrize(("before", "after", "words"), [
    (LOW_BIT_HSDP, ("hsdp_low_bit", 1, 4), ["this job is hsdp on 1 replica of 4 shards: ",
                                            "the state is from hsdp within 2 replicas of 2 shards and this job is hsdp "
                                            "within 1 replica of 4 shards: the error feedback of "]),
    (LOW_BIT_HSDP, HSDP, [WITHIN_CHANGED]),
    (HSDP, LOW_BIT_HSDP, [WITHIN_CHANGED]),
])
def test_a_state_within_replicas_that_does_not_fit_is_reported(checkpoint, before, after, words):
    folder, saved = checkpoint(before)
    for rank, result in enumerate(on_ranks(4, load, after, folder)):
        assert len(result["warned"]) == len(words)
        assert all(some in message for some, message in zip(words, result["warned"], strict=True))
        if after[2] == before[2]:
            assert result["contents"][0] == saved[rank][0][0]
        else:
            assert [residuals for _, residuals in result["contents"]] == [[], []]
            assert result["contents"][1][0]["step"] == saved[0][0][1][0]["step"]


def test_the_shards_of_hsdp_decide_independently(checkpoint):
    _, saved = checkpoint(HSDP)
    admissions = [contents[0][0]["admission"] for contents, _ in saved]
    assert admissions[0] != admissions[1]
    assert admissions[0] == admissions[2]
