"""nf bench all_reduce --transport c10d: its rows, and its exit if a rank dies."""

import importlib.util
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from workers.job import PATIENCE, Job, environment

ROOT = Path(__file__).resolve().parents[2]
NF = ROOT / "build/release/tools/nf/nf"
MODULE = ROOT / "python/neuron_fabric_lab/bench.py"
KEYS = ("size count codec topology transport ranks p50_us p99_us algbw busbw wire_bytes wirebw vnmse "
        "wrong dtype repeat collective").split()

pytestmark = pytest.mark.skipif(importlib.util.find_spec("neuron_fabric._C") is None,
                                reason="the extension neuron_fabric._C is not built")


def request(**more: object) -> str:
    """A request in the format that nf writes."""
    return json.dumps({"transport": "c10d", "as_json": True, "begin": "4K", "end": "4K", "repeat": 2}
                      | more)


@pytest.mark.skipif(not NF.exists(), reason=f"there is no {NF}")
def test_nf_starts_the_ranks_and_prints_their_measurements():
    env = environment(NF_PYTHON=sys.executable)
    done = subprocess.run(
        [NF, "bench", "all_reduce", "--transport", "c10d", "--ranks", "2", "-b", "1K", "-e", "4K",
         "--repeat", "2", "--codec", "fp32,waterfill:4,c10d_fp32,c10d_bf16", "--json"],
        env={name: value for name, value in env.items() if name not in ("RANK", "WORLD_SIZE")},
        capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["size"], row["codec"], row["topology"], row["dtype"]) for row in rows] == [
        (size, *kind) for size in (1024, 4096) for kind in (
            ("fp32", "ring", "fp32"), ("waterfill:4", "ring", "fp32"),
            ("c10d_fp32", None, "fp32"), ("c10d_bf16", None, "bf16"))]
    for row in rows:
        assert list(row) == KEYS
        assert (row["transport"], row["ranks"], row["repeat"]) == ("c10d", 2, 2)
        assert row["wrong"] == 0
        assert (row["wire_bytes"] is None) == row["codec"].startswith("c10d_")


def test_ranks_of_a_job_measure_every_topology():
    topologies = ["ring", "tree", "direct", "halving_doubling", "endpoint"]
    with Job(3, str(MODULE), request(codecs=["fp32", "g_ternary", "powersgd:2", "c10d_bf16"],
                                     topologies=topologies, dtype="bf16", tile="64K")) as job:
        first, *others = job.join()
    assert first.code == 0, first.errors
    assert len(first.events) == 3 * len(topologies) + 1
    for row in first.events:
        assert row["ranks"] == 3
        assert row["dtype"] == "bf16"
        assert row["wrong"] == 0
        if row["codec"] in ("fp32", "c10d_bf16"):
            assert row["vnmse"] < 1e-4
    for other in others:
        other.check_clean()
        assert (other.code, other.events) == (0, [])


@pytest.mark.parametrize("codec", ["waterfill:4", "c10d_fp32"])
def test_a_dead_rank_ends_the_others(codec):
    with Job(3, str(MODULE), request(codecs=[codec], end="4M", factor=1024, repeat=300)) as job:
        deadline = time.monotonic() + PATIENCE
        while not job.events(0) and time.monotonic() < deadline:  # row of the first size
            time.sleep(0.01)
        job.signal(1, signal.SIGKILL)
        killed = time.monotonic()
        ends = job.join([0, 2])
        assert time.monotonic() - killed < 20
    for end in ends:
        end.check_clean()
        assert end.code == 1
        assert end.errors.splitlines()[-1].startswith(f"nf: {codec}"), end.errors
    assert len(ends[0].events) == 1


def test_an_invalid_request_is_reported():
    with Job(1, str(MODULE), "fp32") as job:
        [end] = job.join()
    assert end.code == 1
    assert end.errors.startswith("nf: "), end.errors
