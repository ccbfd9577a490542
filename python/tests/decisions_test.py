"""Decisions based on measured times are recorded in a file; a run that replays it has the same bits."""

import json
from pathlib import Path

import neuron_fabric as nf
import pytest
import torch.distributed as dist
from neuron_fabric import decisions
from ranks import on_ranks
from small_job import Records, batches, digest, loss_of, make, profile, sgd, wrap

STEPS = 16
SLOW, FAST = 1e-4, 1e6  # Gb/s
# `second` needs no decision before step 6.
PHASES = profile({}, health={"error_budget": 0.9}, phases=[
    {"from_step": 0, "routes": {"second": "fp32", "rest": "waterfill:4"}},
    {"from_step": 6, "routes": {"second": "waterfill:3+ef", "rest": "waterfill:4"}}])
LIMITED = PHASES | {"reducer": {"lines_per_second": 1e-6}, "health": PHASES["health"] | {
    "cool_down_steps": 2, "probation_steps": 2, "most_fallbacks": 9}}
# Decisions that no measurement would give: each region is enabled and disabled.
CHANGING = [{"from_step": 3, "useful": ["second"], "over_capacity": False},
            {"from_step": 9, "useful": ["second", "rest"], "over_capacity": False},
            {"from_step": 12, "useful": ["rest"], "over_capacity": False}]


def attached(options: dict) -> tuple:
    ddp = wrap(make())
    return ddp, nf.attach(ddp, **{"profile": PHASES} | options)


def train_until(ddp, fabric, end: int) -> str:
    optimizer = sgd(ddp)
    for step, batch in zip(range(end), batches()):
        if step < fabric.step:
            continue
        optimizer.zero_grad()
        loss_of(ddp, batch).backward()
        optimizer.step()
    return digest(ddp)


def train(options: dict) -> tuple[str, list[dict], list[dict]]:
    """The bits of the parameters, the records of decisions and the records of measurements."""
    ddp, fabric = attached(options)
    records = Records(fabric)
    bits = train_until(ddp, fabric, STEPS)
    events = records.of("decision"), records.of("measured")
    fabric.close()
    return bits, *events


def run(**options: object) -> tuple[str, list[dict], list[dict]]:
    first, second = on_ranks(2, train, options)
    assert first == second
    return first


def changes_of(path: Path) -> list[dict]:
    return json.loads(path.read_text())["changes"]


def recorded(path: Path, **options: object) -> dict:
    run(decisions=str(path), **options)
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def atomic_file(tmp_path_factory) -> dict:
    return recorded(tmp_path_factory.mktemp("whole") / "decisions.json", link_gbps=SLOW)


def test_a_recorded_run_is_replayed_at_another_link_speed(tmp_path):
    path = tmp_path / "new" / "decisions.json"
    bits, decided, measured = run(decisions=str(path), link_gbps=SLOW)
    assert [change["from_step"] for change in changes_of(path)] == [2, 6]
    assert changes_of(path) == [
        {"from_step": record["step"], "useful": record["useful"],
         "over_capacity": record["over_capacity"]} for record in measured]
    before = path.read_bytes()
    assert run(decisions=str(path), link_gbps=FAST) == (bits, decided, measured)
    assert run(decisions=str(path), deterministic=True) == (bits, decided, measured)
    assert path.read_bytes() == before


def test_recorded_decisions_override_measurements(tmp_path, atomic_file):
    path = tmp_path / "decisions.json"
    path.write_text(json.dumps(atomic_file | {"changes": CHANGING}))
    bits, decided, measured = run(decisions=path, link_gbps=SLOW)
    assert (bits, decided, measured) == run(decisions=path, link_gbps=FAST)
    assert [(record["step"], record["useful"]) for record in measured] == [
        (change["from_step"], change["useful"]) for change in CHANGING]
    assert [(record["step"], record["region"]) for record in decided if record["to"] == "not_useful"] == [
        (3, "rest"), (12, "second")]
    assert bits != run(link_gbps=SLOW)[0]


def test_the_measured_rate_of_a_reducer_is_recorded(tmp_path):
    path = tmp_path / "decisions.json"
    bits, decided, measured = run(profile=LIMITED, admit="safe", decisions=path)
    assert any(change["over_capacity"] for change in changes_of(path))
    assert any(record["to"] == "capacity" for record in decided)
    assert run(profile=LIMITED, admit="safe", decisions=path) == (bits, decided, measured)


def test_measurements_do_not_affect_a_deterministic_run():
    slow = run(deterministic=True, link_gbps=SLOW, profile=LIMITED)
    assert slow == run(deterministic=True, link_gbps=FAST, profile=LIMITED)
    assert slow[2] == []
    assert not any(record["to"] in ("capacity", "not_useful") for record in slow[1])
    assert slow[0] == run(admit="safe")[0]


def stop_and_resume(options: dict, stop: int, link_gbps: float) -> tuple[str, list[dict]]:
    """The bits and decisions of a job that attaches again after `stop` steps, with another link."""
    ddp, fabric = attached(options)
    records = Records(fabric)
    train_until(ddp, fabric, stop)
    decided, state = records.of("decision"), fabric.state_dict()
    fabric.close()
    resumed = wrap(ddp.module)
    fabric = nf.attach(resumed, **{"profile": PHASES} | options | {"link_gbps": link_gbps})
    fabric.load_state_dict(state)
    records = Records(fabric)
    bits = train_until(resumed, fabric, STEPS)
    decided += records.of("decision")
    fabric.close()
    return bits, decided


@pytest.mark.parametrize("stop", [5, 10, 13])
def test_a_resumed_run_continues_the_file_at_its_step(tmp_path, atomic_file, stop):
    path = tmp_path / "decisions.json"
    path.write_text(json.dumps(atomic_file | {"changes": CHANGING}))
    options = {"decisions": path, "link_gbps": SLOW}
    uninterrupted = run(**options)[1]
    slow = on_ranks(2, stop_and_resume, options, stop, SLOW)
    assert slow == on_ranks(2, stop_and_resume, options, stop, FAST)
    assert slow[0] == slow[1]
    assert slow[0][1] == uninterrupted


def rejection(options: dict) -> str:
    with pytest.raises((ValueError, RuntimeError)) as rejected:
        attached(options)
    return str(rejected.value)


def rejected(**options: object) -> str:
    """The error of rank 0; the other rank must report that rank 0 failed."""
    first, second = on_ranks(2, rejection, options)
    assert second == f"attach() failed on rank 0: {first}"
    return first


def changed(**fields: object):
    return lambda content: json.dumps(content | fields)


def with_change(**fields: object):
    return changed(changes=[CHANGING[0] | fields])


@pytest.mark.parametrize(("corrupt", "words"), [
    (lambda _: "", "not JSON"),
    (lambda content: json.dumps(content)[:-20], "not JSON"),
    (lambda _: "[" * 100_000, "not JSON"),
    (lambda _: "[]", '"format" is not "neuron_fabric.decisions"'),
    (changed(format="neuron_fabric.profile"), '"format" is not "neuron_fabric.decisions"'),
    (changed(version=2), "version 2, and this build reads version 1"),
    (changed(binding="0" * 16), "it was recorded with another profile or model"),
    (changed(regions=["rest", "second"]), "it was recorded with another profile or model"),
    (changed(more=1), "the file has an unknown key 'more'"),
    (changed(topology="star"), "\"topology\" is 'star', not one of direct, ring, "),
    (changed(topology=["ring"]), "\"topology\" is ['ring'], not one of direct, ring, "),
    (changed(changes={}), '"changes" is not a list'),
    (changed(changes=[3]), "changes[0] is not an object"),
    (changed(changes=[{"from_step": 3}]), 'changes[0] has no "over_capacity"'),
    (changed(changes=[CHANGING[1], CHANGING[0]]), "changes[1]: step 3 comes after step 9"),
    (with_change(from_step=-1), "changes[0].from_step is -1, not a step"),
    (with_change(from_step=1 << 70), "changes[0].from_step is 1180591620717411303424, not a step"),
    (with_change(from_step=True), "changes[0].from_step is True, not a step"),
    (with_change(useful="second"), "changes[0].useful is not a list of regions"),
    (with_change(useful=["third"]), "useful has 'third', which is not a region of the profile"),
    (with_change(useful=[["second"]]), "useful has ['second'], which is not a region of the profile"),
    (with_change(over_capacity=1), "changes[0].over_capacity is 1, not true or false"),
    (lambda _: " " * (decisions.MAX_FILE_BYTES + 1), "it is larger than 16 MiB"),
])
def test_a_file_that_cannot_be_replayed_is_rejected_by_name(tmp_path, atomic_file, corrupt, words):
    path = tmp_path / "decisions.json"
    path.write_text(corrupt(atomic_file))
    message = rejected(decisions=str(path))
    assert message.startswith(f"the decisions {path} cannot be replayed: ")
    assert words in message and "remove this one to record again" in message


def test_the_file_of_another_model_is_rejected_by_name(tmp_path, atomic_file):
    path = tmp_path / "decisions.json"
    path.write_text(json.dumps(atomic_file))
    other = profile({"second": "waterfill:4", "rest": "fp32"})
    assert "it was recorded with another profile or model" in rejected(decisions=path, profile=other)


def test_files_that_cannot_be_opened_are_rejected_by_name(tmp_path):
    (tmp_path / "file").write_text("")
    missing = tmp_path / "missing.json"
    assert rejected(decisions=tmp_path) == f"cannot read the decisions {tmp_path}: Is a directory"
    assert f"cannot write the decisions {tmp_path}/file/below: " in rejected(
        decisions=tmp_path / "file" / "below")
    assert f"replays the decisions {missing}, which does not exist" in rejected(
        decisions=missing, deterministic=True)
    assert not missing.exists()


def attach_alone(path: Path) -> bool:
    _, fabric = attached({"decisions": path})
    fabric.close()
    return path.exists()


def test_a_job_without_steps_records_nothing(tmp_path):
    assert on_ranks(2, attach_alone, tmp_path / "decisions.json") == [False, False]


def differing() -> str:
    return rejection({"deterministic": dist.get_rank() == 0})


def test_differing_decision_options_are_rejected():
    for words in on_ranks(2, differing):
        assert "rank 0 and rank 1 differ in " in words


@pytest.mark.parametrize("options", [{"deterministic": 1}, {"decisions": 3}])
def test_options_of_another_type_are_rejected(options):
    with pytest.raises(TypeError, match=next(iter(options))):
        nf.HookState(make(), **options)
