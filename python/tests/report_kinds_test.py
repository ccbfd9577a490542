"""The report handles every kind of record that the runtime writes."""

import json
import re
from pathlib import Path

import neuron_fabric as nf
from neuron_fabric.report import make_page, read_run
from neuron_fabric.telemetry.records import KINDS, parse
from ranks import on_ranks
from small_job import batches, loss_of, make, wrap

ROOT = Path(__file__).parents[2]
WRITERS = (ROOT / "src/runtime/record.cc", ROOT / "python/neuron_fabric/running.py",
           ROOT / "python/neuron_fabric/session.py")


def train(run_dir: str) -> None:
    model = wrap(make())
    fabric = nf.attach(model, run_dir=run_dir)
    for _, batch in zip(range(30), batches()):
        loss = loss_of(model, batch)
        fabric.observe(loss)
        loss.backward()
    fabric.close()


def test_a_report_of_a_real_run_omits_no_record(tmp_path):
    on_ranks(2, train, str(tmp_path))
    records = [json.loads(line) for line in (tmp_path / "rank0.jsonl").read_text().splitlines()]
    assert {"attach", "buckets", "measured", "step", "detach"} <= {record["event"] for record in records}
    assert None not in [parse(record) for record in records]
    assert not [note for note in read_run(tmp_path).notes if "omitted" in note]
    assert "unknown kind" not in make_page(tmp_path)
    losses = [record["rank_loss"] for record in records if record["event"] == "step"]
    assert len(losses) == 30 and None not in losses


def test_every_kind_that_is_written_is_read():
    written = set()
    for path in WRITERS:
        written |= set(re.findall(r'"event"[,:] ?"(\w+)"', path.read_text()))
    assert {"attach", "buckets", "step", "decision", "notice", "detach"} <= written
    assert written == KINDS
