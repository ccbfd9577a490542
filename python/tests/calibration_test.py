"""nf.Calibrator around a custom training loop, on real ranks."""

import json
from pathlib import Path

import neuron_fabric as nf
import pytest
import small_job
import torch
import torch.distributed as dist
from neuron_fabric.calibration.evidence import Evidence
from neuron_fabric.calibration.store import EVIDENCE, CalibrationError
from neuron_fabric.calibration.watch import Watch
from ranks import on_ranks
from small_calibration import OPTIONS, interrupted, make_calibrator, profile_of, rejected, resumed


def calibrate(**options: object) -> dict:
    return profile_of(make_calibrator(**options))


@pytest.fixture(scope="module")
def profile() -> dict:
    first, second = on_ranks(2, calibrate)
    assert first == second
    return first


def test_a_custom_loop_gets_a_profile_with_its_evidence(profile):
    routes = profile["phases"][0]["routes"]
    assert set(routes) == {"norm", "bias", "head", "backbone"}
    assert routes["backbone"] == "g_binary"  # the target is loose
    assert {"version", "torch", "machine", "commit"} <= profile["provenance"].keys()
    evidence = Evidence.from_dict(profile["provenance"]["evidence"])
    assert len(evidence.dense_losses) == OPTIONS["dense_steps"]
    # Two points, four regions, two routes.
    assert len(evidence.measurements) == 16
    by_route = {(one.region, one.route): one for one in evidence.measurements}
    low, better = by_route["backbone", "g_binary"], by_route["backbone", "waterfill:4"]
    assert 0 < better.error < low.error < 1
    assert better.slope == pytest.approx(1, abs=0.1)
    assert 0.5 < low.agreement <= 1
    # The errors measured in branches are within the limits.
    budgets = {region["name"]: region["error_budget"] for region in profile["regions"]}
    seen = [row for row in evidence.branches if "backbone" in row.health]
    assert max(row.health["backbone"].error for row in seen) < budgets["backbone"] < 2


def admitted(profile: dict) -> dict:
    """The routes in use after some steps with the profile."""
    model = small_job.wrap(small_job.make())
    fabric = nf.attach(model, profile=profile, admit="safe")
    optimizer = small_job.sgd(model)
    for _, batch in zip(range(12), small_job.batches()):
        optimizer.zero_grad()
        small_job.loss_of(model, batch).backward()
        optimizer.step()
    summary = fabric.summary().to_dict()
    fabric.close()
    return {region["name"]: region["route_now"] for region in summary["regions"]}


def test_the_runtime_admits_the_profile(profile):
    routes = on_ranks(2, admitted, profile)[0]
    assert routes["backbone"] == profile["phases"][0]["routes"]["backbone"] != "fp32"


def train_with_and_without_calibrator(**options: object) -> str:
    """The bits of the model after dense steps with the calibrator's hook and without a hook."""
    digests = []
    for calibrated in (True, False):
        model = small_job.wrap(small_job.make())
        optimizer = small_job.sgd(model)
        if calibrated:
            nf.Calibrator(model, optimizer, lambda batch: None, lambda order: [])
        for _, batch in zip(range(3), small_job.batches()):
            optimizer.zero_grad()
            small_job.loss_of(model, batch).backward()
            optimizer.step()
        digests.append(small_job.digest(model))
    return digests


def test_dense_steps_are_bit_identical_to_plain_ddp():
    for own, plain in on_ranks(2, train_with_and_without_calibrator):
        assert own == plain


@pytest.mark.parametrize("die_after", [3, 8 + 2 * 6, 8 + 4 * 6 + 1])
def test_an_interrupted_calibration_gives_the_same_profile(tmp_path, profile, die_after):
    """Interrupted in dense training, between two questions, and within one."""
    on_ranks(2, interrupted, str(tmp_path), die_after)
    assert on_ranks(2, resumed, str(tmp_path))[0] == profile


def own(folder: str) -> str:
    return f"{folder}/host{dist.get_rank()}"


def interrupted_in_own_folder(folder: str, die_after: int) -> None:
    interrupted(own(folder), die_after)


def resumed_in_own_folder(folder: str) -> dict:
    return resumed(own(folder))


def rejected_in_own_folder(folder: str) -> str:
    return rejected(own(folder))


def test_a_calibration_resumes_if_every_host_has_its_own_folder(tmp_path, profile):
    """Only rank 0 has the evidence."""
    on_ranks(2, interrupted_in_own_folder, str(tmp_path), 8 + 2 * 6)
    checkpoints = sorted((tmp_path / "host1").iterdir())
    assert [path.name for path in checkpoints] == ["checkpoint.rank1.pt", "first step.rank1.pt"]
    kept = checkpoints[0].read_bytes()
    checkpoints[0].unlink()
    for message in on_ranks(2, rejected_in_own_folder, str(tmp_path)):
        assert "host1/checkpoint.rank1.pt is missing or damaged" in message
    assert checkpoints[1].exists()
    checkpoints[0].write_bytes(kept)
    assert on_ranks(2, resumed_in_own_folder, str(tmp_path))[0] == profile


def resumed_with(folder: str, **options: object) -> tuple[dict, int]:
    """The profile, and the number of steps that it took."""
    steps = 0

    class Counter(Watch):
        def step(self) -> None:
            nonlocal steps
            steps += 1

    calibrator = make_calibrator(out=folder, resume=True, watch=Counter(), **options)
    return profile_of(calibrator), steps


def test_another_target_runs_only_the_missing_branches(tmp_path):
    on_ranks(2, resumed, str(tmp_path))
    (profile, steps), _ = on_ranks(2, resumed_with, str(tmp_path), target="0.6")
    assert steps == 0
    assert profile["provenance"]["settings"]["target"] == "0.6"
    (profile, steps), _ = on_ranks(2, resumed_with, str(tmp_path), target="1e-9")
    assert steps > 0
    assert not profile["provenance"]["meets_target"]


def calibrate_with_error_feedback() -> Evidence:
    # g_ternary draws no random numbers: two branches can differ only in their initial state.
    return make_calibrator(candidates=("g_ternary+ef",), is_same_order=True).run().evidence


def test_residuals_do_not_leak_into_the_next_branch():
    evidence, _ = on_ranks(2, calibrate_with_error_feedback)
    low_bit = [branches for branches in evidence.branches if branches.assignment.routes]
    assert low_bit
    for branches in low_bit:
        first, *others = branches.losses
        assert others and set(others) == {first}
    assert not evidence.measurements  # a single sum is not representative


def test_damaged_folders_and_those_of_another_job_are_rejected(tmp_path):
    folder = str(tmp_path)
    on_ranks(2, interrupted, folder, 8 + 2 * 6)
    assert "another branch_steps" in on_ranks(2, rejected, folder, branch_steps=7)[0]
    (tmp_path / "checkpoint.rank1.pt").write_bytes(b"no checkpoint")
    for message in on_ranks(2, rejected, folder):
        assert "checkpoint.rank1.pt is missing or damaged" in message
    text = (tmp_path / EVIDENCE).read_text()
    for broken in (text[:100], json.dumps({"format": "something"}),
                   text.replace('"losses"', '"loses"')):
        (tmp_path / EVIDENCE).write_text(broken)
        assert "is missing or damaged" in on_ranks(2, rejected, folder)[0]


def diverging() -> str:
    with pytest.raises(CalibrationError) as error:
        make_calibrator(rate=1e9).run()
    return str(error.value)


def test_divergence_at_full_precision_is_reported():
    assert "diverges at full precision" in on_ranks(2, diverging)[0]


def unmeetable() -> tuple[bool, dict]:
    outcome = make_calibrator(target="1e-9", candidates=("g_binary",)).run()
    return outcome.meets_target, outcome.profile().to_dict()


def test_an_unreachable_target_gives_a_dense_profile():
    meets, profile = on_ranks(2, unmeetable)[0]
    assert not meets
    assert set(profile["phases"][0]["routes"].values()) == {"fp32"}
    assert profile["provenance"]["table"]


def beyond_fp16(folder: str) -> dict:
    outcome = make_calibrator(scale=1e8, target="100%", candidates=("fp16",), out=folder).run()
    return outcome.profile().to_dict() | {"text": str(outcome)}


def test_a_route_that_overflows_is_not_chosen(tmp_path):
    """The result is the same on all ranks and is saved; no branch tries the route."""
    first, second = on_ranks(2, beyond_fp16, str(tmp_path))
    assert first == second
    assert set(first["phases"][0]["routes"].values()) == {"fp32"}
    kept = json.loads((tmp_path / EVIDENCE).read_text())["evidence"]
    evidence = Evidence.from_dict(kept)
    assert {one.error for one in evidence.measurements if one.region == "backbone"} == {None}
    assert {branches.assignment.route("backbone") for branches in evidence.branches} == {"fp32"}


def calibrate_in_parts() -> list[str]:
    return [region["name"] for region in calibrate(depth=2)["regions"]]


def test_the_backbone_can_be_split_by_depth():
    assert on_ranks(2, calibrate_in_parts)[0] == ["norm", "bias", "head", "backbone1", "backbone2"]


def not_attachable() -> str:
    model = small_job.wrap(small_job.make())
    nf.attach(model)
    with pytest.raises(RuntimeError) as error:
        nf.Calibrator(model, small_job.sgd(model), lambda batch: None, lambda order: [])
    dist.barrier()
    return str(error.value)


def test_a_model_with_a_hook_is_rejected():
    assert "already has a communication hook" in on_ranks(2, not_attachable)[0]


def test_saving_replaces_the_file_atomically(tmp_path):
    path = tmp_path / "profile.json"
    on_ranks(2, save, str(path))
    assert nf.Profile.load(path).to_dict()["name"] == "mine"
    assert list(tmp_path.iterdir()) == [path]


def save(path: str) -> None:
    outcome = make_calibrator().run()
    if dist.get_rank() == 0:
        outcome.save(Path(path), "mine")
    dist.barrier()
