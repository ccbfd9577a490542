"""Records reach every reader as they are, and no reader reaches into training."""

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
    """What the runtime's drain() is to Telemetry."""

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
        self.hangs, self.go_on = threading.Event(), threading.Event()

    def write(self, record):
        self.hangs.set()
        self.go_on.wait(10)


def texts(*items):
    return [json.dumps(item) for item in items]


def still(drain, readers):
    """A stream whose thread does nothing by itself."""
    return Telemetry(drain, readers, interval=1000)


# The stream

def test_every_reader_gets_every_record_and_a_flush_a_drain():
    one, other = Keeper(), Keeper()
    telemetry = still(Queue(texts(ATTACH, step(0)), texts(step(1))), [one, other])
    assert telemetry.poll() and telemetry.poll() and telemetry.poll()
    assert one.records == other.records == [ATTACH, step(0), step(1)]
    assert one.flushes == 2
    telemetry.close()


def test_the_thread_drains_by_itself_and_ends_at_close():
    keeper = Keeper()
    written = threading.Event()
    keeper.flush = written.set
    telemetry = Telemetry(Queue(texts(ATTACH)), [keeper], interval=0.001)
    assert written.wait(10)
    telemetry.close()
    assert not telemetry._thread.is_alive()
    assert keeper.records == [ATTACH]


def test_close_reads_what_is_left_and_closes_once():
    keeper = Keeper()
    telemetry = still(Queue(texts(DETACH)), [keeper])
    telemetry.close()
    telemetry.close()
    assert keeper.records == [DETACH]
    assert keeper.closes == 1


def test_its_thread_can_be_left_to_close_it():
    keeper = Keeper()
    telemetry = still(Queue(texts(DETACH)), [keeper])
    telemetry.leave(telemetry.close)
    telemetry._thread.join(10)
    assert not telemetry._thread.is_alive()
    assert (keeper.records, keeper.closes) == ([DETACH], 1)


def test_a_reader_that_fails_is_dropped_with_one_warning_and_the_others_go_on(caplog):
    breaker, keeper = Breaker(), Keeper()
    telemetry = still(Queue(texts(step(0)), texts(step(1))), [breaker, keeper])
    telemetry.poll()
    telemetry.poll()
    telemetry.close()
    assert [record.message for record in caplog.records] == [
        "neuron_fabric: Breaker is removed, training continues: no space left on device"]
    assert (len(breaker.records), breaker.closes) == (1, 1)
    assert keeper.records == [step(0), step(1)]


def test_records_that_cannot_be_had_or_read_are_lost_with_one_warning(caplog):
    keeper = Keeper()
    telemetry = still(Queue(["{", *texts(step(0)), "}"]), [keeper])
    telemetry.poll()
    telemetry._drain = lambda: 1 / 0
    telemetry.poll()
    telemetry.close()
    assert keeper.records == [step(0)]
    assert len(caplog.records) == 1
    assert caplog.records[0].message.startswith("neuron_fabric: some telemetry is lost")


def test_what_json_does_not_have_becomes_null():
    keeper = Keeper()
    telemetry = still(Queue(['{"event":"step","step":1,"loss":NaN,"seconds":-Infinity}']), [keeper])
    telemetry.close()
    assert keeper.records == [{"event": "step", "step": 1, "loss": None, "seconds": None}]


def test_a_reader_that_hangs_holds_nobody_up(monkeypatch, caplog):
    monkeypatch.setattr(stream, "LOCK_SECONDS", 0.01)
    hanger = Hanger()
    telemetry = Telemetry(Queue(texts(step(0))), [hanger], interval=0.001)
    assert hanger.hangs.wait(10)
    assert not telemetry.poll()
    telemetry.close()
    assert "telemetry hangs" in caplog.text
    hanger.go_on.set()


# The readers that a job gets

def test_readers_are_made_on_rank_0_alone(tmp_path):
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
def test_what_no_rank_could_use_is_refused_on_every_rank(rank, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        make_readers(rank, **options)


def test_what_fails_on_this_machine_is_left_out_with_a_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("no folder")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert make_readers(0, run_dir=tmp_path / "file", prometheus=f"127.0.0.1:{port}") == []
    assert len(caplog.records) == 2
    assert all(record.levelno == logging.WARNING for record in caplog.records)


def test_without_the_package_tensorboard_is_left_out_and_named(monkeypatch, tmp_path, caplog):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert make_readers(0, tensorboard=tmp_path) == []
    assert "is missing: pip install tensorboard" in caplog.text


def test_nothing_here_needs_torch_or_the_extension():
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


def test_a_resumed_job_goes_on_in_the_same_file(tmp_path):
    for record in (ATTACH, DETACH):
        reader = JsonLines(tmp_path / "rank0.jsonl")
        reader.write(record)
        reader.flush()
        reader.close()
    assert (tmp_path / "rank0.jsonl").read_text() == "".join(
        json.dumps(record, separators=(",", ":")) + "\n" for record in (ATTACH, DETACH))


def test_a_line_that_was_cut_off_does_not_spoil_the_next(tmp_path):
    (tmp_path / "rank0.jsonl").write_text('{"event":"st')
    reader = JsonLines(tmp_path / "rank0.jsonl")
    reader.write(DETACH)
    reader.close()
    lines = (tmp_path / "rank0.jsonl").read_text().splitlines()
    assert (lines[0], json.loads(lines[1])) == ('{"event":"st', DETACH)


def test_models_of_one_process_have_files_of_their_own(tmp_path):
    first, second = (make_readers(0, run_dir=tmp_path)[0] for _ in range(2))
    assert (tmp_path / "rank0.jsonl").exists() and (tmp_path / "model2" / "rank0.jsonl").exists()
    first.close()
    third = make_readers(0, run_dir=tmp_path)[0]  # the first one's file is free again
    assert not (tmp_path / "model3").exists()
    second.close()
    third.close()
