"""topology="auto" measures topologies at attach. All ranks choose alike, and the measurement changes no bits."""

import json

import neuron_fabric as nf
import pytest
import torch.distributed as dist
from ranks import on_ranks
from small_job import batches, digest, loss_of, make, profile, sgd, wrap

STEPS = 6
FLAT = {"direct", "tree", "ring", "halving_doubling"}
# On this link low bits are always useful, so decisions do not depend on measured times.
OPTIONS = {"profile": profile({"second": "waterfill:3+ef", "rest": "waterfill:4"}, health={"error_budget": 0.9}),
           "link_gbps": 1e-4}


def train(fabric: nf.Fabric, ddp, end: int = STEPS) -> str:
    optimizer = sgd(ddp)
    for _, batch in zip(range(end), batches()):
        optimizer.zero_grad()
        loss_of(ddp, batch).backward()
        optimizer.step()
    return digest(ddp)


def run(options: dict) -> tuple[str, dict, str]:
    """Topology, measured times and the bits of the parameters."""
    ddp = wrap(make())
    with nf.attach(ddp, **OPTIONS | options) as fabric:
        bits = train(fabric, ddp)
        return fabric.topology, fabric.summary().to_dict()["topology_ms"], bits


@pytest.mark.parametrize("ranks", [3, 4])
def test_all_ranks_choose_alike_and_have_the_bits_of_the_given_topology(ranks):
    measured = on_ranks(ranks, run, {})
    topology, times, _ = measured[0]
    assert measured == [measured[0]] * ranks
    assert "direct" in times and set(times) <= FLAT and topology in times
    assert all(ms > 0 for ms in times.values())
    given = on_ranks(ranks, run, {"topology": topology})
    assert [(topology, {}, measured[0][2])] * ranks == given


def test_two_ranks_measure_nothing():
    assert [one[:2] for one in on_ranks(2, run, {})] == [("direct", {})] * 2


@pytest.mark.parametrize("options", [
    {"admit": "safe"}, {"deterministic": True}, {"profile": None, "route": "waterfill:4"},
    {"profile": None, "route": "g_binary", "reducer": "cxl"}, {"topology": "direct"},
    {"profile": profile({"second": "fp32", "rest": "fp32"})}])
def test_jobs_without_a_choice_measure_nothing(options):
    topologies = [one[:2] for one in on_ranks(3, run, options)]
    assert topologies == [("direct", {})] * 3


def run_reducer() -> tuple[str, list[str]]:
    with nf.Reducer(make(), **OPTIONS) as reducer:
        text = str(reducer.fabric.summary())
        return reducer.fabric.topology, sorted(reducer.fabric.summary().to_dict()["topology_ms"]), text


def test_a_reducer_measures_too():
    first, *others = on_ranks(3, run_reducer)
    assert set(first[1]) <= FLAT
    assert f"topology {first[0]}; measured for a bucket: " in first[2]
    assert [other[0] for other in others] == [first[0]] * 2


def run_recorded(path: str) -> tuple[str, str]:
    topology, _, bits = run({"decisions": path})
    return topology, bits


def test_a_replay_has_the_topology_of_the_recorded_run(tmp_path):
    path = tmp_path / "decisions.json"
    recorded = on_ranks(3, run_recorded, str(path))
    content = json.loads(path.read_text())
    assert content["topology"] == recorded[0][0]
    assert on_ranks(3, run_recorded, str(path)) == recorded
    path.write_text(json.dumps(content | {"topology": "ring"}))
    ring = [(topology, bits) for topology, _, bits in on_ranks(3, run, {"topology": "ring"})]
    assert on_ranks(3, run_recorded, str(path)) == ring
    del content["topology"]  # as in older files
    path.write_text(json.dumps(content))
    assert on_ranks(3, run_recorded, str(path))[0][0] == "direct"


def resume_along(topology: str) -> tuple[str, str, str, str]:
    """The topology after the load, by the fabric and by its summary, and the bits."""
    ddp = wrap(make())
    with nf.attach(ddp, **OPTIONS) as fabric:
        state = fabric.state_dict()
        core = json.loads(state["state"])
        chosen = core["topology"]
        fabric.load_state_dict(state | {"state": json.dumps(core | {"topology": topology})})
        bits = train(fabric, ddp)
        return chosen, fabric.topology, fabric.summary().to_dict()["topology"], bits


@pytest.mark.parametrize("topology", ["direct", "ring"])
def test_a_resumed_job_keeps_its_topology(topology):
    given = on_ranks(3, run, {"topology": topology})
    for chosen, now, shown, bits in on_ranks(3, resume_along, topology):
        assert chosen in FLAT
        assert (now, shown, bits) == (topology, topology, given[0][2])


def attach_with_small_buckets_on_rank_1() -> str:
    options = {"bucket_cap_mb": 1e-6} if dist.get_rank() == 1 else {}
    with pytest.raises(RuntimeError) as failed:
        nf.attach(wrap(make(), **options), **OPTIONS)
    return str(failed.value)


def test_buckets_of_another_size_on_one_rank_are_rejected_before_the_measurement():
    for message in on_ranks(3, attach_with_small_buckets_on_rank_1, timeout=60):
        assert "rank 0 and rank 1 differ in the bytes of a bucket" in message
