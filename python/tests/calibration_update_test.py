"""nf calibrate --update: a profile is updated from the records of a run."""

import json
from pathlib import Path

import fake_run
import pytest
from few_records import ATTACH, FALLBACK, step
from neuron_fabric.calibration.update import UpdateError, read_records, update
from neuron_fabric_lab import calibrate


def profile_of_the_run() -> dict:
    """With the calibration results of `mlp`, which the run locks out."""
    rows = [{"region": "mlp", "route": route, "bytes_up": size}
            for route, size in (("waterfill:5", 50), ("g_binary", 10), ("waterfill:4", 40),
                                ("bf16", 160))]
    return {
        "format": "neuron_fabric.profile", "version": 1, "name": "made_up",
        "regions": [{"name": name} for name in fake_run.REGIONS],
        "phases": [{"from_step": 0, "routes": dict(fake_run.ROUTES)}],
        "provenance": {"routes": rows}}


@pytest.fixture
def run(tmp_path) -> Path:
    folder = tmp_path / "run"
    fake_run.write(folder, steps=1000)
    return folder


def test_locked_out_regions_get_the_next_better_route(run):
    refined = update(profile_of_the_run(), read_records(run), "run")
    routes = refined["phases"][0]["routes"]
    assert routes["mlp"] == "waterfill:5"
    assert routes["attention"] == "waterfill:5"  # fell back twice, which is within the limit


def test_locked_out_regions_without_a_better_route_become_dense(run):
    profile = profile_of_the_run()
    del profile["provenance"]
    assert update(profile, read_records(run), "run")["phases"][0]["routes"]["mlp"] == "fp32"


def test_error_budgets_exceed_the_measured_errors(run):
    seen = read_records(run)
    seen["attention"].max_error = 0.3
    refined = update(profile_of_the_run(), seen, "run")
    budgets = {region["name"]: region.get("error_budget") for region in refined["regions"]}
    assert budgets["attention"] == 0.45
    assert budgets["head"] == 0.1  # it already exceeded the measured errors
    assert budgets["embedding"] is None  # always dense


def step_at(number: int, error: float, reason: str = "admitted") -> dict:
    record = step(number)
    route = "waterfill:5" if reason in ("admitted", "probation") else "fp32"
    record["regions"] = [record["regions"][0] | {"route": route, "reason": reason, "error": error}]
    return record


def job(route: str, budget: float, *records: dict) -> list[dict]:
    """The records of a job with one region, `body`."""
    region = ATTACH["regions"][0] | {"route": route, "error_budget": budget}
    return [ATTACH | {"regions": [region]}, *records]


def refined_by(folder: Path, profile: dict, *records: dict) -> dict:
    (folder / "rank0.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return update(profile, read_records(folder), "run")


def profile_of(route: str) -> dict:
    return {"regions": [{"name": "body", "error_budget": 0.7}],
            "phases": [{"from_step": 0, "routes": {"body": route}}]}


def test_an_error_above_the_budget_does_not_raise_it(tmp_path):
    usual = [step_at(number, 0.45) for number in range(20)]
    fallback = FALLBACK | {"step": 22, "to": "error_budget"}
    records = job("waterfill:5", 0.7, *usual, step_at(20, 0.9), fallback, step_at(21, 0.8),
                  step_at(22, 0.9, "error_budget"), step_at(23, 0.6, "probation"))
    refined = refined_by(tmp_path, profile_of("waterfill:5"), *records)
    assert refined["regions"][0]["error_budget"] == 0.9  # above 0.6, the error during probation
    row = refined["provenance"]["updates"][0]["regions"][0]
    assert row["most_error"] == 0.6
    assert row["fallbacks"] == {"error_budget": 1}


LOCK_OUT = FALLBACK | {"step": 9, "from": "error_budget", "to": "locked_out"}


def test_a_lock_out_before_an_update_is_not_counted_again(tmp_path):
    first = job("waterfill:4", 0.7, LOCK_OUT)
    later = job("waterfill:5", 0.7, step_at(10, 0.2))
    refined = refined_by(tmp_path, profile_of("waterfill:5"), *first, *later)
    assert refined["phases"][0]["routes"]["body"] == "waterfill:5"
    assert refined["regions"][0]["error_budget"] == 0.3
    # A resumed job has the old routes.
    again = job("waterfill:5", 0.7, LOCK_OUT) + later
    refined = refined_by(tmp_path, profile_of("waterfill:5"), *again)
    assert refined["phases"][0]["routes"]["body"] == "fp32"


def test_steps_repeated_from_a_checkpoint_count_once(tmp_path):
    fallback = FALLBACK | {"step": 7, "to": "norm_spike"}
    first = job("waterfill:5", 0.7, *(step_at(number, 0.2) for number in range(8)), fallback,
                LOCK_OUT, step_at(9, 0.2, "locked_out"))
    again = job("waterfill:5", 0.7, *(step_at(number, 0.2) for number in range(5, 8)), fallback,
                *(step_at(number, 0.2) for number in range(8, 10)))
    refined = refined_by(tmp_path, profile_of("waterfill:5"), *first, *again)
    row = refined["provenance"]["updates"][0]["regions"][0]
    assert row["low_bit_steps"] == 10
    assert row["fallbacks"] == {"norm_spike": 1}
    assert not row["locked_out"]  # the lock-out was undone
    assert refined["phases"][0]["routes"]["body"] == "waterfill:5"


@pytest.mark.parametrize(("better", "route"), [
    ({"harm": 0.1, "standard_error": 0.01, "pairs": 2}, "waterfill:6"),
    ({"harm": None, "standard_error": None, "pairs": 0}, "waterfill:6"),  # not tried alone
    ({"harm": None, "standard_error": 0.01, "pairs": 2}, "bf16"),  # diverged
    ({"harm": None, "standard_error": 0.0, "pairs": 0}, "bf16"),  # rejected: non-finite
    ({"bytes_up": 320}, "bf16")])  # more bytes than dense
def test_routes_rejected_by_the_calibration_are_skipped(tmp_path, better, route):
    row = {"region": "body", "dense_bytes": 320}
    rows = [row | {"route": "waterfill:5", "bytes_up": 50},
            row | {"route": "waterfill:6", "bytes_up": 60} | better,
            row | {"route": "bf16", "bytes_up": 160}, row | {"route": "mxfp8", "bytes_up": 330}]
    profile = profile_of("waterfill:5") | {"provenance": {"routes": rows}}
    records = job("waterfill:5", 0.7, step_at(8, 0.2), LOCK_OUT)
    assert refined_by(tmp_path, profile, *records)["phases"][0]["routes"]["body"] == route
    profile["provenance"]["routes"] = [rows[0], rows[3]]
    assert refined_by(tmp_path, profile, *records)["phases"][0]["routes"]["body"] == "fp32"


def test_a_second_update_from_the_same_records_changes_nothing(run):
    once = update(profile_of_the_run(), read_records(run), "run")
    twice = update(once, read_records(run), "run")
    assert (twice["phases"], twice["regions"]) == (once["phases"], once["regions"])
    rows = {row["region"]: row for row in twice["provenance"]["updates"][1]["regions"]}
    assert [name for name, row in rows.items() if row["outdated"]] == ["mlp"]


def test_every_update_is_recorded_in_the_profile(run):
    once = update(profile_of_the_run(), read_records(run), "first")
    twice = update(once, read_records(run), "second")
    assert [entry["run"] for entry in twice["provenance"]["updates"]] == ["first", "second"]
    row = next(row for row in twice["provenance"]["updates"][0]["regions"]
               if row["region"] == "mlp")
    assert row["locked_out"]
    assert row["changes"] == ["waterfill:4 to waterfill:5 from step 0"]


def test_unsuitable_runs_are_rejected(run, tmp_path):
    profile = profile_of_the_run()
    profile["regions"].pop()
    with pytest.raises(UpdateError, match="belongs to another profile: it has regions head"):
        update(profile, read_records(run), "run")
    with pytest.raises(UpdateError, match="has no records"):
        read_records(tmp_path / "nowhere")
    (tmp_path / "rank0.jsonl").write_text('{"event": "notice"\n')
    with pytest.raises(UpdateError, match="has no steps"):
        read_records(tmp_path)


def test_the_command_rewrites_the_profile(run, tmp_path, capsys):
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(profile_of_the_run()))
    assert calibrate.main(["--update", str(run), "-o", str(path)]) == 0
    assert "waterfill:4 to waterfill:5" in capsys.readouterr().out
    assert json.loads(path.read_text())["phases"][0]["routes"]["mlp"] == "waterfill:5"
    assert calibrate.main(["--update", str(tmp_path), "-o", str(path)]) == 1
    assert "has no records" in capsys.readouterr().err
    with pytest.raises(SystemExit) as end:
        calibrate.main(["--update", str(run)])
    assert end.value.code == 2
