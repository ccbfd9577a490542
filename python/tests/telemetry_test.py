"""Every reader gets every record unchanged, and no reader can disturb training."""

import json
import logging
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from few_records import ATTACH, DETACH, RUN, step

from neuron_fabric.telemetry import Reader, Telemetry, make_readers, stream
from neuron_fabric.telemetry.jsonl import JsonLines
from neuron_fabric.telemetry.prometheus import PrometheusFile, PrometheusServer


class Queue:
    """Stands in for drain() of the runtime."""

    def __init__(self, *batches):
        self.batches = list(batches)

    def __call__(self):
        return self.batches.pop(0) if self.batches else []


class Keeper(Reader):
    def __init__(self):
        self.records, self.flushes, self.closes = [], 0, 0

    def write(self, record):
        self.records.append(record)

    def flush(self):
        self.flushes += 1

    def close(self):
        self.closes += 1


class Breaker(Keeper):
    def write(self, record):
        super().write(record)
        raise OSError("no space left on device")


class Hanger(Keeper):
    def __init__(self):
        super().__init__()
        self.hangs, self.release = threading.Event(), threading.Event()

    def write(self, record):
        self.hangs.set()
        self.release.wait(10)


def texts(*items):
    return [json.dumps(item) for item in items]


def still(drain, readers):
    """A stream whose thread does not drain periodically."""
    return Telemetry(drain, readers, interval=1000)


# The stream

def test_every_reader_gets_every_record_and_one_flush_per_drain():
    one, other = Keeper(), Keeper()
    telemetry = still(Queue(texts(ATTACH, step(0)), texts(step(1))), [one, other])
    assert telemetry.poll() and telemetry.poll() and telemetry.poll()
    assert one.records == other.records == [ATTACH, step(0), step(1)]
    assert one.flushes == 2
    telemetry.close()


def test_the_thread_drains_periodically_and_ends_at_close():
    keeper = Keeper()
    written = threading.Event()
    keeper.flush = written.set
    telemetry = Telemetry(Queue(texts(ATTACH)), [keeper], interval=0.001)
    assert written.wait(10)
    telemetry.close()
    assert not telemetry._thread.is_alive()
    assert keeper.records == [ATTACH]


def test_close_reads_the_remaining_records_and_closes_once():
    keeper = Keeper()
    telemetry = still(Queue(texts(DETACH)), [keeper])
    telemetry.close()
    telemetry.close()
    assert keeper.records == [DETACH]
    assert keeper.closes == 1


def test_the_thread_can_close_the_stream():
    keeper = Keeper()
    telemetry = still(Queue(texts(DETACH)), [keeper])
    telemetry.leave(telemetry.close)
    telemetry._thread.join(10)
    assert not telemetry._thread.is_alive()
    assert (keeper.records, keeper.closes) == ([DETACH], 1)


def test_a_failing_reader_is_dropped_with_one_warning_and_the_others_continue(caplog):
    breaker, keeper = Breaker(), Keeper()
    telemetry = still(Queue(texts(step(0)), texts(step(1))), [breaker, keeper])
    telemetry.poll()
    telemetry.poll()
    telemetry.close()
    assert [record.message for record in caplog.records] == [
        "neuron_fabric: Breaker is removed, training continues: no space left on device"]
    assert (len(breaker.records), breaker.closes) == (1, 1)
    assert keeper.records == [step(0), step(1)]


def test_unreadable_records_are_dropped_with_one_warning(caplog):
    keeper = Keeper()
    telemetry = still(Queue(["{", *texts(step(0)), "}"]), [keeper])
    telemetry.poll()
    telemetry._drain = lambda: 1 / 0
    telemetry.poll()
    telemetry.close()
    assert keeper.records == [step(0)]
    assert len(caplog.records) == 1
    assert caplog.records[0].message.startswith("neuron_fabric: some telemetry is lost")


def test_nan_and_inf_become_null():
    keeper = Keeper()
    telemetry = still(Queue(['{"event":"step","step":1,"loss":NaN,"seconds":-Infinity}']), [keeper])
    telemetry.close()
    assert keeper.records == [{"event": "step", "step": 1, "loss": None, "seconds": None}]


def test_a_hanging_reader_does_not_block_training(monkeypatch, caplog):
    monkeypatch.setattr(stream, "LOCK_SECONDS", 0.01)
    hanger = Hanger()
    telemetry = Telemetry(Queue(texts(step(0))), [hanger], interval=0.001)
    assert hanger.hangs.wait(10)
    assert not telemetry.poll()
    telemetry.close()
    assert "telemetry hangs" in caplog.text
    hanger.release.set()


# The readers of a job

def test_readers_are_made_only_on_rank_0(tmp_path):
    options = {"run_dir": tmp_path / "run", "prometheus": ["127.0.0.1:0", tmp_path / "x.prom"]}
    assert make_readers(1, **options) == []
    assert not (tmp_path / "run").exists()
    readers = make_readers(0, **options)
    assert [type(reader) for reader in readers] == [JsonLines, PrometheusServer, PrometheusFile]
    assert (tmp_path / "run" / "rank0.jsonl").exists()
    for reader in readers:
        reader.close()


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("options", [{"prometheus": "next door"}, {"prometheus": 70000},
                                     {"prometheus": True}, {"prometheus": [9400, "host:"]},
                                     {"tensorboard": 5}])
def test_invalid_reader_options_are_rejected_on_every_rank(rank, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        make_readers(rank, **options)


def test_a_reader_that_cannot_start_is_skipped_with_a_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("no folder")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert make_readers(0, run_dir=tmp_path / "file", prometheus=f"127.0.0.1:{port}") == []
    assert len(caplog.records) == 2
    assert all(record.levelno == logging.WARNING for record in caplog.records)


def test_without_its_package_tensorboard_is_skipped_with_a_warning(monkeypatch, tmp_path, caplog):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert make_readers(0, tensorboard=tmp_path) == []
    assert "is missing: pip install tensorboard" in caplog.text


def test_telemetry_needs_neither_torch_nor_the_extension():
    code = ("import sys; sys.modules['torch'] = sys.modules['neuron_fabric._C'] = None; "
            "import neuron_fabric.telemetry, neuron_fabric.summary, neuron_fabric.report.__main__")
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[1])


# JSON lines

def test_lines_are_the_records(tmp_path):
    reader = JsonLines(tmp_path / "new" / "rank0.jsonl")
    for record in RUN:
        reader.write(record)
    reader.close()
    lines = (tmp_path / "new" / "rank0.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == RUN


def test_a_resumed_job_appends_to_the_same_file(tmp_path):
    for record in (ATTACH, DETACH):
        reader = JsonLines(tmp_path / "rank0.jsonl")
        reader.write(record)
        reader.flush()
        reader.close()
    assert (tmp_path / "rank0.jsonl").read_text() == "".join(
        json.dumps(record, separators=(",", ":")) + "\n" for record in (ATTACH, DETACH))


def test_a_truncated_line_does_not_damage_the_next_one(tmp_path):
    (tmp_path / "rank0.jsonl").write_text('{"event":"st')
    reader = JsonLines(tmp_path / "rank0.jsonl")
    reader.write(DETACH)
    reader.close()
    lines = (tmp_path / "rank0.jsonl").read_text().splitlines()
    assert (lines[0], json.loads(lines[1])) == ('{"event":"st', DETACH)


def test_models_of_one_process_have_separate_files(tmp_path):
    first, second = (make_readers(0, run_dir=tmp_path)[0] for _ in range(2))
    assert (tmp_path / "rank0.jsonl").exists() and (tmp_path / "model2" / "rank0.jsonl").exists()
    first.close()
    third = make_readers(0, run_dir=tmp_path)[0]  # the file of the first reader is free again
    assert not (tmp_path / "model3").exists()
    second.close()
    third.close()
