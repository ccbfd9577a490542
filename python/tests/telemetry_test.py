"""Records reach every reader as they are, and no reader reaches into training."""

import json
import logging
import math
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from fake_run import records

from neuron_fabric.telemetry import Reader, Telemetry, make_readers, stream
from neuron_fabric.telemetry.jsonl import JsonLines
from neuron_fabric.telemetry.prometheus import PrometheusFile, PrometheusServer, parse_address
from neuron_fabric.telemetry.records import REASONS, RecordError, parse
from neuron_fabric.telemetry.tensorboard import TensorBoard

ATTACH = {"event": "attach", "time": 1e9, "rank": 0, "ranks": 2, "version": "0.1.0",
          "torch": "2.11.0", "backend": "gloo", "mode": "on", "admit": "useful",
          "topology": "direct", "seed": 0, "profile": "default",
          "link": {"latency_us": 50.0, "gbps": 1.0, "dense_latency_us": 60.0, "dense_gbps": 0.9},
          "regions": [{"name": "body", "parameters": 1, "values": 4096, "route": "waterfill:5",
                       "error_budget": 0.1},
                      {"name": 'a "b"\\c\nd', "parameters": 1, "values": 16, "route": "fp32"}],
          "parameters": [{"name": "w", "region": "body", "values": 4096, "route": "waterfill:5"}]}


def step(number, **changes):
    return {"event": "step", "step": number, "time": 1e9 + number, "epoch": 1, "seconds": 0.25,
            "exposed_seconds": 0.125, "predicted_exposed_seconds": 0.0625, "loss": 1.5,
            "should_step": True, "buckets": 1,
            "regions": [{"name": "body", "route": "waterfill:5", "reason": "admitted", "norm": 0.5,
                         "error": 0.002, "non_finite": 0, "bytes": 2560, "dense_bytes": 16384,
                         "seconds": 0.1},
                        {"name": 'a "b"\\c\nd', "route": "fp32", "reason": "admitted", "norm": 2.0,
                         "error": None, "non_finite": 0, "bytes": 64, "dense_bytes": 64,
                         "seconds": 0.01}]} | changes


FALLBACK = {"event": "decision", "step": 2, "epoch": 2, "region": "body", "from": "admitted",
            "to": "non_finite", "route": "fp32"}
NOTICE = {"event": "notice", "time": 1e9, "level": "warning", "text": "mind the gap"}
DETACH = {"event": "detach", "time": 2e9, "step": 3}
RUN = [ATTACH, step(0), step(1, loss=None, should_step=False), FALLBACK, NOTICE, DETACH]

METRICS = r"""# HELP neuron_fabric_info What runs; always 1.
# TYPE neuron_fabric_info gauge
neuron_fabric_info{rank="0",ranks="2",version="0.1.0",torch="2.11.0",backend="gloo",mode="on",admit="useful",topology="direct",profile="default"} 1
# HELP neuron_fabric_step Last step that was reported.
# TYPE neuron_fabric_step gauge
neuron_fabric_step 1
# HELP neuron_fabric_epoch Grows by one when decisions change.
# TYPE neuron_fabric_epoch gauge
neuron_fabric_epoch 1
# HELP neuron_fabric_loss Loss of the last step that had one, mean over ranks.
# TYPE neuron_fabric_loss gauge
neuron_fabric_loss 1.5
# HELP neuron_fabric_steps_total Steps since the job was attached.
# TYPE neuron_fabric_steps_total counter
neuron_fabric_steps_total 2
# HELP neuron_fabric_skipped_steps_total Steps whose gradients were not finite.
# TYPE neuron_fabric_skipped_steps_total counter
neuron_fabric_skipped_steps_total 1
# HELP neuron_fabric_step_seconds_total Time of all steps.
# TYPE neuron_fabric_step_seconds_total counter
neuron_fabric_step_seconds_total 0.5
# HELP neuron_fabric_exposed_seconds_total Time that steps waited for gradients to be summed.
# TYPE neuron_fabric_exposed_seconds_total counter
neuron_fabric_exposed_seconds_total 0.25
# HELP neuron_fabric_predicted_exposed_seconds_total The same as the cost model predicted it.
# TYPE neuron_fabric_predicted_exposed_seconds_total counter
neuron_fabric_predicted_exposed_seconds_total 0.125
# HELP neuron_fabric_sent_bytes_total Bytes that this rank sent, by region and route in use.
# TYPE neuron_fabric_sent_bytes_total counter
neuron_fabric_sent_bytes_total{region="a \"b\"\\c\nd",route="fp32"} 128
neuron_fabric_sent_bytes_total{region="body",route="waterfill:5"} 5120
# HELP neuron_fabric_dense_bytes_total Bytes that it would have sent without low-bit routes.
# TYPE neuron_fabric_dense_bytes_total counter
neuron_fabric_dense_bytes_total{region="a \"b\"\\c\nd"} 128
neuron_fabric_dense_bytes_total{region="body"} 32768
# HELP neuron_fabric_region_state How a region travels and why; 1 for what holds now.
# TYPE neuron_fabric_region_state gauge
neuron_fabric_region_state{region="a \"b\"\\c\nd",route="fp32",reason="admitted"} 1
neuron_fabric_region_state{region="body",route="waterfill:5",reason="admitted"} 1
# HELP neuron_fabric_region_norm Norm of the region's reduced gradient.
# TYPE neuron_fabric_region_norm gauge
neuron_fabric_region_norm{region="a \"b\"\\c\nd"} 2.0
neuron_fabric_region_norm{region="body"} 0.5
# HELP neuron_fabric_region_error Squared error of the region's route over squared norm.
# TYPE neuron_fabric_region_error gauge
neuron_fabric_region_error{region="body"} 0.002
# HELP neuron_fabric_region_error_budget The most that region_error may be.
# TYPE neuron_fabric_region_error_budget gauge
neuron_fabric_region_error_budget{region="body"} 0.1
# HELP neuron_fabric_non_finite_values_total Values of reduced gradients that were not finite.
# TYPE neuron_fabric_non_finite_values_total counter
neuron_fabric_non_finite_values_total{region="a \"b\"\\c\nd"} 0
neuron_fabric_non_finite_values_total{region="body"} 0
# HELP neuron_fabric_decisions_total Changes of a region's reason, by the new one.
# TYPE neuron_fabric_decisions_total counter
neuron_fabric_decisions_total{region="body",reason="non_finite"} 1
# HELP neuron_fabric_fallbacks_total Decisions that took a low-bit route away for trouble.
# TYPE neuron_fabric_fallbacks_total counter
neuron_fabric_fallbacks_total{region="body",reason="non_finite"} 1
# HELP neuron_fabric_notices_total Notices of the runtime, by level.
# TYPE neuron_fabric_notices_total counter
neuron_fabric_notices_total{level="warning"} 1
"""


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


def test_a_reader_that_fails_is_dropped_with_one_warning_and_the_others_go_on(caplog):
    breaker, keeper = Breaker(), Keeper()
    telemetry = still(Queue(texts(step(0)), texts(step(1))), [breaker, keeper])
    telemetry.poll()
    telemetry.poll()
    telemetry.close()
    assert [record.message for record in caplog.records] == [
        "neuron_fabric: Breaker is dropped, training goes on: no space left on device"]
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


# Prometheus

def test_the_text_for_prometheus(tmp_path):
    reader = PrometheusFile(tmp_path / "run.prom")
    for record in RUN:
        reader.write(record)
    reader.flush()
    assert (tmp_path / "run.prom").read_text() == METRICS
    assert [path.name for path in tmp_path.iterdir()] == ["run.prom"]


def test_a_region_has_one_state_at_a_time():
    server = PrometheusServer("127.0.0.1:0")
    server.write(step(0))
    changed = step(1)
    changed["regions"][0] |= {"route": "fp32", "reason": "cool_down"}
    server.write(changed)
    states = [line for line in server.text().splitlines()
              if line.startswith('neuron_fabric_region_state{region="body"')]
    assert states == ['neuron_fabric_region_state{region="body",route="fp32",reason="cool_down"} 1']
    server.close()


def test_metrics_are_served_and_nothing_else_is():
    server = PrometheusServer("127.0.0.1:0")
    for record in RUN:
        server.write(record)
    url = "http://{}:{}".format(*server.address)
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert answer.read().decode() == METRICS
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{url}/", timeout=10)
    server.close()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{url}/metrics", timeout=10)


@pytest.mark.parametrize("target, address", [(9400, ("", 9400)), ("9400", ("", 9400)),
                                             (":9400", ("", 9400)),
                                             ("127.0.0.1:0", ("127.0.0.1", 0)),
                                             ("[::1]:9400", ("::1", 9400))])
def test_addresses(target, address):
    assert parse_address(target) == address


# TensorBoard

class Writer:
    """Takes what a SummaryWriter takes."""

    def __init__(self):
        self.scalars, self.texts, self.is_closed = [], [], False

    def add_scalar(self, tag, value, step, time):
        self.scalars.append((tag, value, step, time))

    def add_text(self, tag, text, step, time=None):
        self.texts.append((tag, text, step))

    def flush(self):
        pass

    def close(self):
        self.is_closed = True


def test_scalars_and_texts_for_tensorboard():
    writer = Writer()
    reader = TensorBoard(writer)
    for record in RUN:
        reader.write(record)
    reader.close()
    assert {tag: value for tag, value, number, _ in writer.scalars if number == 0} == {
        "nf/step_seconds": 0.25, "nf/exposed_seconds": 0.125,
        "nf/predicted_exposed_seconds": 0.0625, "nf/bytes_ratio": 2624 / 16448, "nf/loss": 1.5,
        "nf/region/body/norm": 0.5, "nf/region/body/error": 0.002, "nf/region/body/bytes": 2560,
        'nf/region/a "b"\\c\nd/norm': 2.0, 'nf/region/a "b"\\c\nd/bytes': 64}
    assert {time for _, _, number, time in writer.scalars if number == 1} == {1e9 + 1}
    assert "nf/loss" not in [tag for tag, _, number, _ in writer.scalars if number == 1]
    assert ("nf/decisions/body", "step 2: **body** from admitted to **non_finite**, travels fp32",
            2) in writer.texts
    assert not writer.is_closed  # it is its owner's


def test_tensorboard_reads_back_what_was_written(tmp_path):
    pytest.importorskip("torch.utils.tensorboard", exc_type=ImportError)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = TensorBoard(tmp_path)
    for record in RUN:
        reader.write(record)
    reader.flush()
    reader.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [event.value for event in events.Scalars("nf/loss")] == [1.5]
    assert [event.step for event in events.Scalars("nf/region/body/bytes")] == [0, 1]
    assert "nf/decisions/body/text_summary" in events.Tags()["tensors"]


# The records

def test_a_record_of_an_unknown_kind_is_passed_over():
    assert parse({"event": "tomorrow"}) is None


@pytest.mark.parametrize("record", [None, 5, [], {}, {"event": 5}, {"event": "step"},
                                    {"event": "step", "step": -1}, {"event": "step", "step": 1.5},
                                    {"event": "step", "step": True}, step(0, loss="low"),
                                    step(0, regions={}), step(0, regions=[5]),
                                    step(0, regions=[{"route": "fp32"}]), ATTACH | {"link": []},
                                    ATTACH | {"profile": None}, FALLBACK | {"to": 5}])
def test_what_is_no_record_is_refused(record):
    with pytest.raises(RecordError):
        parse(record)


def test_what_is_missing_or_not_finite_is_none():
    event = parse({"event": "step", "step": 3, "loss": math.inf, "seconds": 0})
    assert (event.loss, event.seconds, event.exposed_seconds, event.regions) == (None, None, None,
                                                                                 ())
    assert parse({"event": "step", "step": 3, "loss": 10**400}).loss is None


@pytest.mark.parametrize("before, after, is_fallback", [
    ("admitted", "non_finite", True), ("probation", "error_budget", True),
    ("admitted", "locked_out", True), ("admitted", "not_useful", False),
    ("non_finite", "cool_down", False), ("non_finite", "locked_out", False),
    ("warm_up", "admitted", False), ("admitted", "admitted", False)])
def test_a_fallback_takes_a_low_bit_route_away_for_trouble(before, after, is_fallback):
    assert parse(FALLBACK | {"from": before, "to": after}).is_fallback == is_fallback


def test_the_made_up_run_goes_through_every_reason_but_forced():
    seen = {region["reason"] for record in records(steps=3000) if record["event"] == "step"
            for region in record["regions"]}
    assert seen == set(REASONS) - {"forced"}
