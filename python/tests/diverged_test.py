"""Runs with a non-finite loss: the commands report them and print valid JSON."""

import importlib.util
import json
import math

import pytest
from compared_runs import RUNS, run
from neuron_fabric.support import units
from neuron_fabric_lab import demo, json_text
from neuron_fabric_lab.compare import intervals, page, pictures, race, words
from neuron_fabric_lab.compare.__main__ import main as compare_main
from neuron_fabric_lab.compare.figures import compare
from neuron_fabric_lab.compare.jobs import make_jobs
from neuron_fabric_lab.train.__main__ import show
from neuron_fabric_lab.train.options import parse
from neuron_fabric_lab.train.result import read_result, write_result
from neuron_fabric_lab.train.target import Target

pytestmark = pytest.mark.skipif(importlib.util.find_spec("neuron_fabric._C") is None,
                                reason="the extension neuron_fabric._C is not built")
NOT_FINITE = [math.nan, math.inf]


def diverged(route, seed, loss=math.nan, **changes):
    result = run(route, seed, 0.1, diverged=True, loss=loss, losses=[1.0, loss], **changes)
    result["curve"][-1]["loss"] = loss
    return result


def strict(text):
    """Strict JSON, as parsers of other languages require."""
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


def test_non_finite_numbers_are_printed_as_nan_and_inf():
    assert [units.number(value) for value in (math.nan, math.inf, -math.inf)] == ["nan", "inf", "-inf"]
    assert strict(json_text.dumps({"a": [1.5, math.inf], "b": ({"c": math.nan}, "NaN", True, 7)})) == {
        "a": [1.5, None], "b": [{"c": None}, "NaN", True, 7]}


@pytest.mark.parametrize("loss", NOT_FINITE)
def test_nf_train_reports_a_diverging_run(capsys, loss):
    options = ["digits", "--route", "thc"]
    assert show(parse(options, ["digits"]), diverged("thc", 1, loss)) == 1
    printed = capsys.readouterr()
    assert f"accuracy 10.00 %, loss {loss} after 10 steps" in printed.out
    assert "the loss is NaN or Inf at step 10: training diverges on thc" in printed.err
    assert show(parse([*options, "--json"], ["digits"]), diverged("thc", 1, loss)) == 1
    printed = strict(capsys.readouterr().out)
    assert printed["loss"] is None
    assert printed["losses"] == [1.0, None]


def test_a_result_is_strict_json_and_survives_a_round_trip(tmp_path):
    write_result(tmp_path, diverged("thc", 1))
    assert strict((tmp_path / "result.json").read_text())["loss"] is None
    again = read_result(tmp_path)
    assert math.isnan(again["loss"])
    assert math.isnan(again["curve"][-1]["loss"])
    assert again["curve"][0]["loss"] == 2.0


@pytest.mark.parametrize("loss", NOT_FINITE)
def test_a_diverged_comparison_by_loss_has_no_spread_and_no_interval(tmp_path, loss):
    bad = [diverged("thc", 1, loss), run("thc", 2, 0.9)]
    compared = compare([*RUNS, *bad], target=Target("loss", 1.5))
    cells = words.route_rows(compared)[-1]
    assert cells[:5] == ["thc", "2 (1 diverged)", "50.00 %", str(loss), "-"]
    assert cells[5:7] == [f"+{loss}", "-"]
    assert race.sentences(compared)[-2] == "thc does not pay off: only 1 of 2 runs reached the target"
    rows = [strict(line) for line in words.json_lines(compared).splitlines()]
    assert [row["loss"] for row in rows if row["route"] == "thc"] == [None, 1.0]
    pictures.draw(compared, [tmp_path / "loss.svg"])


def test_pairs_without_a_finite_mean_have_no_interval():
    difference = intervals.paired({1: math.inf, 2: 1.0, 3: 2.0}, {1: 1.0, 2: math.inf, 3: 1.0})
    assert math.isnan(difference.mean)
    assert (difference.low, difference.high) == (None, None)


def test_nf_compare_prints_a_table_with_diverged_runs(tmp_path, capsys):
    options = ["digits", "--ranks", "2"]
    routes = ["fp32", "thc"]
    for job in make_jobs(tmp_path, routes, 2, options):
        made = diverged if job.route == "thc" else lambda route, seed, **more: run(route, seed, 0.9, **more)
        job.out.mkdir()
        write_result(job.out, made(job.route, job.seed, options=job.options().identity()))
    assert compare_main([*options, "--routes", ",".join(routes), "--baseline", "fp32", "--seeds", "2",
                         "--target-loss", "1.5", "--out", str(tmp_path), "--table"]) == 0
    assert "2 (2 diverged)" in capsys.readouterr().out
    assert "2 (2 diverged)" in (tmp_path / "table.txt").read_text()
    for line in (tmp_path / "rows.jsonl").read_text().splitlines():
        strict(line)


def test_a_page_contains_diverged_runs(tmp_path):
    folder = tmp_path / "small"
    for number, result in enumerate([*RUNS, diverged("thc", 1), diverged("thc", 2)]):
        (folder / str(number)).mkdir(parents=True)
        write_result(folder / str(number), result)
    page.make_page([folder], tmp_path / "page.md", tmp_path / "img")
    assert "| `thc` | 2 (2 diverged) | 10.00 % | nan |" in (tmp_path / "page.md").read_text()


def test_the_demo_prints_a_diverged_run(tmp_path, monkeypatch, capsys):
    results = [diverged(variant.route, 1, title=variant.title, dense_bytes=4.0) for variant in demo.VARIANTS]
    (tmp_path / demo.RESULTS).write_text(json_text.dumps(results))
    monkeypatch.setattr(demo.report, "make_page", lambda folder: "")
    demo.show(demo.parse(["--out", str(tmp_path)]))
    assert "  nan  " in capsys.readouterr().out
    demo.show(demo.parse(["--out", str(tmp_path), "--json"]))
    assert [strict(line)["loss"] for line in capsys.readouterr().out.splitlines()] == [None] * 3
