"""What Prometheus reads of a run."""

import urllib.error
import urllib.request

import pytest
from few_records import ATTACH, RUN, step, unwatched

from neuron_fabric.telemetry.metrics import Metrics
from neuron_fabric.telemetry.prometheus import PrometheusFile, PrometheusServer, parse_address

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
# HELP neuron_fabric_rank_loss Loss of the last step that had one, of this rank.
# TYPE neuron_fabric_rank_loss gauge
neuron_fabric_rank_loss 1.0
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


def test_the_text_for_prometheus(tmp_path):
    reader = PrometheusFile(tmp_path / "run.prom")
    for record in RUN:
        reader.write(record)
    reader.flush()
    assert (tmp_path / "run.prom").read_text() == METRICS
    assert [path.name for path in tmp_path.iterdir()] == ["run.prom"]


def test_a_step_that_nobody_looked_at_counts_as_a_step_alone():
    metrics = Metrics()
    metrics.add(ATTACH)
    metrics.add(unwatched(0))
    lines = metrics.text().splitlines()
    assert "neuron_fabric_steps_total 1" in lines
    assert "neuron_fabric_skipped_steps_total 0" in lines
    assert 'neuron_fabric_non_finite_values_total{region="body"} 0' in lines


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
