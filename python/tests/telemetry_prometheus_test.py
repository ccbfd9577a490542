"""The metrics of a run for Prometheus, and their server."""

import contextlib
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest
from few_records import ATTACH, RUN, step, unmonitored

from neuron_fabric.telemetry import prometheus
from neuron_fabric.telemetry.metrics import Metrics
from neuron_fabric.telemetry.prometheus import (HANDLER_THREAD, MAX_CONNECTIONS, MAX_REQUEST_BYTES,
                                                PrometheusFile, PrometheusServer, parse_address)

METRICS = r"""# HELP neuron_fabric_info The versions and settings of the job; always 1.
# TYPE neuron_fabric_info gauge
neuron_fabric_info{rank="0",ranks="2",version="0.1.0",torch="2.11.0",backend="gloo",mode="on",admit="useful",topology="direct",profile="default"} 1
# HELP neuron_fabric_step The last reported step.
# TYPE neuron_fabric_step gauge
neuron_fabric_step 1
# HELP neuron_fabric_epoch Incremented when decisions change.
# TYPE neuron_fabric_epoch gauge
neuron_fabric_epoch 1
# HELP neuron_fabric_loss Loss of the last step that had one, mean over ranks.
# TYPE neuron_fabric_loss gauge
neuron_fabric_loss 1.5
# HELP neuron_fabric_rank_loss Loss of the last step that had one, of this rank.
# TYPE neuron_fabric_rank_loss gauge
neuron_fabric_rank_loss 1.0
# HELP neuron_fabric_steps_total Steps since the job was attached.
# TYPE neuron_fabric_steps_total counter
neuron_fabric_steps_total 2
# HELP neuron_fabric_skipped_steps_total Steps with NaN or Inf in the gradients.
# TYPE neuron_fabric_skipped_steps_total counter
neuron_fabric_skipped_steps_total 1
# HELP neuron_fabric_step_seconds_total Time of all steps.
# TYPE neuron_fabric_step_seconds_total counter
neuron_fabric_step_seconds_total 0.5
# HELP neuron_fabric_exposed_seconds_total Time that steps waited for reduced gradients.
# TYPE neuron_fabric_exposed_seconds_total counter
neuron_fabric_exposed_seconds_total 0.25
# HELP neuron_fabric_predicted_exposed_seconds_total The exposed time that the cost model predicted.
# TYPE neuron_fabric_predicted_exposed_seconds_total counter
neuron_fabric_predicted_exposed_seconds_total 0.125
# HELP neuron_fabric_sent_bytes_total Bytes sent by this rank, by region and route in use.
# TYPE neuron_fabric_sent_bytes_total counter
neuron_fabric_sent_bytes_total{region="a \"b\"\\c\nd",route="fp32"} 128
neuron_fabric_sent_bytes_total{region="body",route="waterfill:5"} 5120
# HELP neuron_fabric_dense_bytes_total Bytes that it would have sent without low-bit routes.
# TYPE neuron_fabric_dense_bytes_total counter
neuron_fabric_dense_bytes_total{region="a \"b\"\\c\nd"} 128
neuron_fabric_dense_bytes_total{region="body"} 32768
# HELP neuron_fabric_region_state The route of a region and the reason; 1 for the current state.
# TYPE neuron_fabric_region_state gauge
neuron_fabric_region_state{region="a \"b\"\\c\nd",route="fp32",reason="admitted"} 1
neuron_fabric_region_state{region="body",route="waterfill:5",reason="admitted"} 1
# HELP neuron_fabric_region_norm Norm of the region's reduced gradient.
# TYPE neuron_fabric_region_norm gauge
neuron_fabric_region_norm{region="a \"b\"\\c\nd"} 2.0
neuron_fabric_region_norm{region="body"} 0.5
# HELP neuron_fabric_region_error Quantisation error of the region's route, sampled: squared, over the squared norm.
# TYPE neuron_fabric_region_error gauge
neuron_fabric_region_error{region="body"} 0.002
# HELP neuron_fabric_region_error_budget The limit of region_error.
# TYPE neuron_fabric_region_error_budget gauge
neuron_fabric_region_error_budget{region="body"} 0.1
# HELP neuron_fabric_non_finite_values_total NaN and Inf values in reduced gradients.
# TYPE neuron_fabric_non_finite_values_total counter
neuron_fabric_non_finite_values_total{region="a \"b\"\\c\nd"} 0
neuron_fabric_non_finite_values_total{region="body"} 0
# HELP neuron_fabric_decisions_total Changes of a region's reason, by the new reason.
# TYPE neuron_fabric_decisions_total counter
neuron_fabric_decisions_total{region="body",reason="non_finite"} 1
# HELP neuron_fabric_fallbacks_total Decisions that disabled a low-bit route after a breach.
# TYPE neuron_fabric_fallbacks_total counter
neuron_fabric_fallbacks_total{region="body",reason="non_finite"} 1
# HELP neuron_fabric_notices_total Notices of the runtime, by level.
# TYPE neuron_fabric_notices_total counter
neuron_fabric_notices_total{level="warning"} 1
"""


def test_the_text_for_prometheus(tmp_path):
    reader = PrometheusFile(tmp_path / "run.prom")
    for record in RUN:
        reader.write(record)
    reader.flush()
    assert (tmp_path / "run.prom").read_text() == METRICS
    assert [path.name for path in tmp_path.iterdir()] == ["run.prom"]


def test_an_unmonitored_step_only_increases_the_step_count():
    metrics = Metrics()
    metrics.add(ATTACH)
    metrics.add(unmonitored(0))
    lines = metrics.text().splitlines()
    assert "neuron_fabric_steps_total 1" in lines
    assert "neuron_fabric_skipped_steps_total 0" in lines
    assert 'neuron_fabric_non_finite_values_total{region="body"} 0' in lines


def test_the_topology_of_a_checkpoint_replaces_that_of_the_job():
    metrics = Metrics()
    for record in (ATTACH, {"event": "topology", "topology": "ring"}):
        metrics.add(record)
    infos = [line for line in metrics.text().splitlines() if line.startswith("neuron_fabric_info{")]
    assert len(infos) == 1 and 'topology="ring"' in infos[0]


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


def test_only_metrics_are_served():
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


def scrape(server, timeout=10):
    url = "http://{}:{}/metrics".format(*server.address)
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return answer.read().decode()


@contextlib.contextmanager
def serving(target="127.0.0.1:0"):
    server = PrometheusServer(target)
    server.write(step(0))
    try:
        yield server
    finally:
        server.close()


def handler_threads():
    return sum(thread.name == HANDLER_THREAD for thread in threading.enumerate())


def is_closed_by_peer(connection, seconds):
    connection.settimeout(seconds)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


@pytest.mark.parametrize("target", [0, "0", ":0"])
def test_a_port_without_address_is_served_on_localhost_only(target):
    with serving(target) as server:
        assert server.address[0] == "127.0.0.1"
        assert "neuron_fabric_step 0" in scrape(server)


def test_all_interfaces_are_served_on_request():
    with serving("0.0.0.0:0") as server:
        assert server.address[0] == "0.0.0.0"
        assert "neuron_fabric_step 0" in scrape(server)


def test_idle_connections_neither_block_a_scrape_nor_pile_up_threads():
    with serving() as server, contextlib.ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(server.address, timeout=10))
                for _ in range(3 * MAX_CONNECTIONS)]
        assert "neuron_fabric_step 0" in scrape(server)
        assert handler_threads() <= MAX_CONNECTIONS
        # The oldest connections were closed first.
        assert all(is_closed_by_peer(connection, 10) for connection in idle[:MAX_CONNECTIONS])
        assert not is_closed_by_peer(idle[-1], 0.05)


@pytest.mark.parametrize("drips", [False, True])
def test_a_slow_connection_is_closed_at_its_deadline(monkeypatch, drips):
    monkeypatch.setattr(prometheus, "CONNECTION_SECONDS", 0.5)
    with serving() as server, socket.create_connection(server.address, timeout=10) as slow:
        deadline = time.monotonic() + 10
        is_over = False
        while not is_over and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                slow.sendall(b"G" if drips else b"")
            is_over = is_closed_by_peer(slow, 0.1)
        assert is_over
        assert "neuron_fabric_step 0" in scrape(server)
    assert handler_threads() == 0


@pytest.mark.parametrize("request_text", [
    b"GET /" + b"x" * 3 * MAX_REQUEST_BYTES, b"G" * 3 * MAX_REQUEST_BYTES,
    b"GET /metrics HTTP/1.0\r\n" + b"X-Name: " + b"y" * 3 * MAX_REQUEST_BYTES,
    b"GET /metrics HTTP/1.0\r\n" + b"X-Name: y\r\n" * MAX_REQUEST_BYTES])
def test_a_request_that_is_too_long_is_rejected(request_text):
    with serving() as server, socket.create_connection(server.address, timeout=10) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(request_text)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while part := client.recv(4096):
                answer += part
        assert b"neuron_fabric_step" not in answer
        assert answer == b"" or answer.startswith(b"HTTP/1.0 431 ")
        assert "neuron_fabric_step 0" in scrape(server)


def test_closing_does_not_wait_for_idle_connections():
    server = PrometheusServer("127.0.0.1:0")
    with socket.create_connection(server.address, timeout=10) as idle:
        scrape(server)  # the connection has been accepted by then
        begin = time.monotonic()
        server.close()
        assert time.monotonic() - begin < 5
        assert is_closed_by_peer(idle, 10)
    assert handler_threads() == 0


LOOPBACK = "127.0.0.1"


@pytest.mark.parametrize("target, address", [(9400, (LOOPBACK, 9400)), ("9400", (LOOPBACK, 9400)),
                                             (":9400", (LOOPBACK, 9400)),
                                             ("0.0.0.0:9400", ("0.0.0.0", 9400)),
                                             ("127.0.0.1:0", ("127.0.0.1", 0)),
                                             ("[::1]:9400", ("::1", 9400))])
def test_addresses_are_parsed(target, address):
    assert parse_address(target) == address
