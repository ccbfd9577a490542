"""The plot scripts draw benchmark results."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str, ok: bool = True) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode == 0) == ok, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_losses_can_be_drawn(tmp_path):
    picture = tmp_path / "losses.png"
    files = [str(tmp_path / f"{route}.json") for route in ("plain", "waterfill_4")]
    for file, last in zip(files, (1.0, 1.5), strict=True):
        Path(file).write_text(json.dumps({"route": Path(file).stem, "losses": [3.0, 2.0, last] * 20}))
    run(sys.executable, "bench/plot_losses.py", "-o", str(picture), *files)
    assert picture.read_bytes().startswith(b"\x89PNG")
    broken = tmp_path / "broken.json"
    broken.write_text("{}")
    assert "not a result of nf train" in run(
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
    assert "the trace has no device events" in run(
        sys.executable, "bench/plot_trace.py", "-o", str(picture), str(trace), ok=False)
