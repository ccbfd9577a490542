"""The benchmarks of training: what was stopped goes on where it was, and results can be drawn."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STEPS = 40


def run(*command: str, ok: bool = True) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    return done.stdout + done.stderr


def train(out: Path, name: str, *options: str, ok: bool = True) -> str:
    # Sums of two ranks at full precision do not depend on buckets, which DDP builds anew.
    return run(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
               "bench/train.py", "--size", "tiny", "--route", "fp32", "--steps",
               str(STEPS), "--out", str(out), "--name", name, *options, ok=ok)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """One that was never stopped, and one that was, after its first 20 steps."""
    out = tmp_path_factory.mktemp("train")
    train(out, "whole")
    assert "20 of 40 steps" in train(out, "parts", "--seconds", "0")
    assert "40 of 40 steps" in train(out, "parts")
    return out


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(runs):
    whole, parts = (json.loads((runs / f"{name}.json").read_text()) for name in ("whole", "parts"))
    assert len(whole["losses"]) == STEPS
    assert parts["losses"] == whole["losses"]
    assert whole["losses"][-1] < whole["losses"][0], "it does not learn"


def test_a_run_of_other_options_is_not_taken_for_the_same(runs):
    assert "other options" in train(runs, "whole", "--seed", "2", ok=False)


def test_losses_can_be_drawn(runs, tmp_path):
    picture = tmp_path / "losses.png"
    run(sys.executable, "bench/plot_losses.py", "-o", str(picture), str(runs / "whole.json"),
        str(runs / "parts.json"))
    assert picture.read_bytes().startswith(b"\x89PNG")
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    assert "no result of bench/train.py" in run(
        sys.executable, "bench/plot_losses.py", "-o", str(picture), str(broken), ok=False)


def test_traces_can_be_drawn(tmp_path):
    events = [{"cat": "kernel", "name": name, "ts": ts, "dur": 10, "args": {"stream": stream}}
              for name, ts, stream in [("gemm", 0, 7), ("encode", 20, 9), ("ncclDevKernel", 40, 9)]]
    trace, picture = tmp_path / "route.json.gz", tmp_path / "trace.png"
    with gzip.open(trace, "wt") as file:
        json.dump({"traceEvents": events}, file)
    run(sys.executable, "bench/plot_trace.py", "-o", str(picture), str(trace))
    assert picture.read_bytes().startswith(b"\x89PNG")
    with gzip.open(trace, "wt") as file:
        json.dump({"traceEvents": []}, file)
    assert "nothing ran on a device" in run(
        sys.executable, "bench/plot_trace.py", "-o", str(picture), str(trace), ok=False)
