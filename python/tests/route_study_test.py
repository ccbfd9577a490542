"""bench/route_study.py: routes and seeds in one job, continued by the same command."""

import importlib.util
import json
from pathlib import Path

import pytest
from examples_test import torchrun

SCRIPT = Path(__file__).parents[2] / "bench" / "route_study.py"
ROUTES = ["plain", "waterfill:4", "default/head=bf16/warm_up=0"]


@pytest.fixture(scope="module")
def route_study():
    spec = importlib.util.spec_from_file_location("route_study", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def study(out: Path, routes: list[str]) -> str:
    return torchrun("--nproc-per-node", 2, SCRIPT, "--workloads", "digits:tiny", "--routes", ",".join(routes),
                    "--seeds", 2, "--steps", 8, "-o", out)


def test_a_study_is_continued_with_further_routes(tmp_path: Path) -> None:
    first = study(tmp_path, ROUTES[:2])
    kept = (tmp_path / "digits_tiny.jsonl").read_text()
    again = study(tmp_path, ROUTES)
    rows = [json.loads(line) for line in (tmp_path / "digits_tiny.jsonl").read_text().splitlines()]
    assert (tmp_path / "digits_tiny.jsonl").read_text().startswith(kept)
    assert [(row["route"], row["seed"]) for row in rows] == [
        *((route, seed) for seed in (1, 2) for route in ROUTES[:2]), (ROUTES[2], 1), (ROUTES[2], 2)]
    assert "2 ranks, 8 steps, 2 seeds" in first
    assert again.count("[") == 4  # the intervals of two routes, of both losses
    [profile] = (tmp_path / "profiles").iterdir()
    settings = json.loads(profile.read_text())
    assert settings["health"]["warm_up_steps"] == 0
    assert settings["phases"][0]["routes"]["head"] == "bf16"
    dense, low, mixed = (next(row for row in rows if row["route"] == route) for route in ROUTES)
    assert low["bytes"] < mixed["bytes"] < dense["bytes"]


@pytest.mark.parametrize(("arguments", "words"), [
    (["--workloads", "nothing"], "workload 'nothing' is unknown"), (["--workloads", "gpt:huge"], "no size huge"),
    (["--seeds", "0"], "seeds")])
def test_bad_options_are_rejected(route_study, capsys, tmp_path, arguments, words) -> None:
    with pytest.raises(SystemExit):
        route_study.main([*arguments, "-o", str(tmp_path)])
    assert words in capsys.readouterr().err
