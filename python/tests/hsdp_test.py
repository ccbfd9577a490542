"""HSDP and replicate() at low bits: the replicas of each shard are equal after every step."""

import pytest
from fsdp_job import Mesh, train
from ranks import on_ranks

HSDP = Mesh(2, 2)


def check_replicas(mesh: Mesh, results: list) -> None:
    stride = max(mesh.shards, 1)
    for rank, run in enumerate(results):
        assert run.digests == results[rank % stride].digests
        assert len(set(run.digests)) > 1


@pytest.mark.parametrize(("mesh", "steps"), [(HSDP, 50), (Mesh(3, 0), 20)], ids=str)
def test_replicas_are_equal_after_every_step(mesh, steps):
    results = on_ranks(mesh.ranks, train, mesh, steps, attach={"route": "waterfill:4"}, timeout=240)
    check_replicas(mesh, results)
    for run in results:
        assert run.summary["bytes"] < 0.4 * run.summary["dense_bytes"], "small parameters are dense"


@pytest.mark.parametrize("mode", ["bf16_reduction", "accumulation", "late_all_reduce", "unused"])
def test_replicas_are_equal_in_every_mode(mode):
    check_replicas(HSDP, on_ranks(4, train, HSDP, 8, mode, {"route": "waterfill:3+ef"}))


def test_each_shard_writes_a_run_folder(tmp_path):
    on_ranks(4, train, HSDP, 3, attach={"route": "waterfill:4", "run_dir": str(tmp_path)})
    for part in range(2):
        assert list((tmp_path / f"shard-{part}").glob("*.jsonl"))
