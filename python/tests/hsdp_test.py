"""HSDP and replicate() at low bits: the replicas of each shard are equal after every step."""

import json

import pytest
from fsdp_job import Mesh, batches, loss_of, make, train
from neuron_fabric.telemetry import Reader
from ranks import on_ranks

HSDP, LOW_BIT_HSDP = Mesh(2, 2), Mesh(2, 2, "low_bit")


def check_replicas(mesh: Mesh, results: list) -> None:
    stride = max(mesh.shards, 1)
    for rank, run in enumerate(results):
        assert run.digests == results[rank % stride].digests
        assert len(set(run.digests)) > 1


@pytest.mark.parametrize(("mesh", "steps"), [(HSDP, 50), (LOW_BIT_HSDP, 20), (Mesh(3, 0), 20)], ids=str)
def test_replicas_are_equal_after_every_step(mesh, steps):
    results = on_ranks(mesh.ranks, train, mesh, steps, attach={"route": "waterfill:4"}, timeout=240)
    check_replicas(mesh, results)
    for run in results:
        assert run.summary["bytes"] < 0.4 * run.summary["dense_bytes"], "small parameters are dense"


@pytest.mark.parametrize("mode", ["bf16_reduction", "accumulation", "late_all_reduce", "unused"])
def test_replicas_are_equal_in_every_mode(mode):
    check_replicas(HSDP, on_ranks(4, train, HSDP, 8, mode, {"route": "waterfill:3+ef"}))


def test_each_job_writes_a_run_folder(tmp_path):
    on_ranks(4, train, LOW_BIT_HSDP, 3, attach={"route": "waterfill:4", "run_dir": str(tmp_path)})
    for folder, collective in (("shard-0", "all_reduce"), ("shard-1", "all_reduce"),
                               ("replica-0", "reduce_scatter"), ("replica-1", "reduce_scatter")):
        [file] = (tmp_path / folder).glob("*.jsonl")
        attach = json.loads(file.read_text().splitlines()[0])
        assert (attach["source"], attach["collective"], attach["ranks"]) == ("hsdp", collective, 2)


class Counter(Reader):
    def __init__(self) -> None:
        self.records = 0

    def write(self, record: dict) -> None:
        self.records += 1


def with_readers_and_lines(mesh: Mesh, lines: str) -> int:
    """The number of records that this rank's reader got."""
    reader = Counter()
    with mesh.attach(model := make(mesh), route="g_binary", reducer="cxl", topology="ring", readers=[reader],
                     record_lines=lines):
        loss_of(model, next(batches())).backward()
    return reader.records


def test_each_job_has_the_readers_of_its_ranks_and_its_own_lines(tmp_path):
    assert min(on_ranks(4, with_readers_and_lines, HSDP, str(tmp_path / "lines"))) > 0
    assert sorted(path.name for path in (tmp_path / "lines").iterdir()) == ["shard-0", "shard-1"]
    assert all(path.stat().st_size > 0 for path in (tmp_path / "lines").iterdir())


def without_a_second_stage() -> list[tuple[bool, str, list[str]]]:
    """Whether there is a fabric within replicas, the last warning, and the notes."""
    results = []
    for mesh in (Mesh(2, 1, "low_bit"), Mesh(1, 2), Mesh(1, 2, "low_bit")):
        with mesh.attach(model := make(mesh), route="waterfill:4") as fabric:
            loss_of(model, next(batches())).backward()
            summary = fabric.summary()
            results.append((fabric.within is not None, summary.last_warning, summary.notes))
    return results


def test_a_mesh_on_which_a_stage_has_one_rank_is_reported():
    for one_shard, one_replica, low_bit in on_ranks(2, without_a_second_stage):
        assert not one_shard[0]
        assert any("within_replicas='low_bit' has no effect: a replica is one rank" in note for note in one_shard[2])
        assert "the mesh has one replica, so nothing is sent at low bits" in one_replica[1]
        assert low_bit[:2] == (True, "")


def test_low_bits_within_replicas_are_rejected_without_replicas():
    for message in on_ranks(2, rejected, Mesh(0, 2, "low_bit")):
        assert "within_replicas='low_bit' needs fully_shard() on a mesh with replicas and shards" in message


def rejected(mesh: Mesh) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the caller compares the text
        mesh.attach(make(mesh))
    return str(caught.value)
