"""The report shows the whole run, for runs of any length, including killed and resumed jobs."""

import json
import os
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import fake_run
import pytest
from hypothesis import given
from hypothesis import strategies as st
from few_records import ATTACH, DETACH, FALLBACK, NOTICE, RUN, step

from neuron_fabric.report import RunError, make_page, read_run
from neuron_fabric.report.__main__ import main
from neuron_fabric.report.columns import MAX_COLUMNS, Columns, Spread, StepCell, fewer
from neuron_fabric.report.page import page
from neuron_fabric.report.run import Run
from neuron_fabric.report.svg import Scale, limits, log_limits
from neuron_fabric.report.timeline import MEANINGS, segments
from neuron_fabric.report.treemap import Rect, squarify
from neuron_fabric.support import units
from neuron_fabric.telemetry.reasons import REASONS

PYTHON_DIR = Path(__file__).parents[1]


class Checker(HTMLParser):
    """Checks the nesting of tags, and collects external references."""

    VOID = {"meta", "br", "path", "rect", "circle"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.addresses = [], set(), []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        names = dict(attributes)
        self.addresses += [names[key] for key in ("src", "href", "action", "data") if key in names]
        assert not any(name.startswith("on") for name in names)
        if tag not in self.VOID or tag in ("path", "rect", "circle"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag


def write(folder, records, ending="\n", rank=0):
    folder.mkdir(exist_ok=True)
    text = "\n".join(json.dumps(record) for record in records) + ending
    (folder / f"rank{rank}.jsonl").write_text(text)
    return folder


def run_of(records):
    run = Run("run", 0)
    for record in records:
        run.add(record)
    run.end()
    return run


def long_run(steps, stride=1):
    """Cheap to make: one region, and one record that is modified for each step."""
    record = step(0)
    run = run_of([ATTACH])
    for number in range(0, steps * stride, stride):
        record["step"] = number
        record["loss"] = 100.0 if number == 7 * stride else 1.0
        run.add(record)
    return run


# Contents of the page

@pytest.mark.parametrize("mode", ["on", "shadow"])
def test_the_page_shows_every_region_parameter_reason_and_fallback(tmp_path, mode):
    made = list(fake_run.records(steps=1500, mode=mode))
    text = make_page(write(tmp_path, made))
    for region in made[0]["regions"]:
        assert region["name"] in text
        assert region["route"] in text
    for parameter in made[0]["parameters"]:
        assert f"<td>{parameter['name']}</td>" in text
    for reason in set(REASONS) - {"forced"}:
        assert reason in text
        assert MEANINGS[reason].removeprefix("dense: ") in text
    fallbacks = [record for record in made if record["event"] == "decision"
                 and record["from"] in ("admitted", "probation") and record["to"] != "admitted"
                 and record["to"] != "not_useful"]
    assert len(fallbacks) == 9
    for decision in fallbacks:
        assert f'data-key="{float(decision["step"])}">{decision["step"]:,}</td>' in text
    assert fake_run.NOTICE in text
    for title in ("Admission", "Bytes by route", "Step time", "Loss", "Gradient norm by region",
                  "Quantisation error by region", "Routes of the layers", "Regions", "Fallbacks"):
        assert f"{title}</h3>" in text
    assert ("low bits would send" in text) == (mode == "shadow")
    assert "budget of mlp: 0.02" in text


def test_the_page_is_valid_html_without_external_resources(tmp_path):
    text = make_page(write(tmp_path, fake_run.records(steps=300)))
    checker = Checker(text)
    assert checker.open == []
    assert checker.addresses == []
    assert not checker.tags & {"link", "img", "iframe", "object", "embed", "base"}
    assert "http" not in text and "@import" not in text and "url(" not in text


def test_names_are_escaped(tmp_path):
    evil = '</title><script>alert("1")</script>&\' onload=x'
    records = json.loads(json.dumps(RUN).replace('"body"', json.dumps(evil))
                         .replace("waterfill:5", "water<b>fill").replace("mind the gap", "<i>gap")
                         .replace("non_finite\"", "<u>reason\"").replace('"w"', '"<p>w"'))
    records[0] |= {"profile": "<h1>profile", "version": "<h1>1", "backend": "<h1>gloo"}
    text = make_page(write(tmp_path / '<em>"folder"', records))
    assert Checker(text).open == []
    for markup in ("<script>alert", "<b>fill", "<i>gap", "<u>reason", "<p>w", "<h1>profile",
                   "<h1>gloo", "<em>", "alert(\"1\")"):
        assert markup not in text
    assert evil in unescape(text)


def test_characters_outside_utf8_are_replaced(tmp_path, capsys):
    write(tmp_path, [ATTACH | {"profile": "\ud800"}, step(0)])
    assert main([str(tmp_path)]) == 0
    assert b"?</dd>" in (tmp_path / "report.html").read_bytes()


def test_a_run_without_steps_shows_its_layers(tmp_path):
    text = make_page(write(tmp_path, [ATTACH]))
    assert "The run has no steps yet" in text
    assert "Routes of the layers" in text


def test_a_run_of_one_rank_sends_nothing(tmp_path):
    alone = step(0)
    for region in alone["regions"]:
        region |= {"bytes": 0, "dense_bytes": 0, "norm": 0.0, "error": 0.0}
    assert Checker(make_page(write(tmp_path, [ATTACH, alone]))).open == []


def test_many_regions_fit_on_a_page(tmp_path):
    names = [f"region_{number}" for number in range(100)]
    body = step(0)["regions"][0]
    attach = ATTACH | {
        "regions": [ATTACH["regions"][0] | {"name": name, "values": 1000 + place}
                    for place, name in enumerate(names)],
        "parameters": [ATTACH["parameters"][0] | {"name": f"{name}.{place}", "region": name}
                       for name in names for place in range(50)]}
    steps = [step(number, regions=[body | {"name": name,
                                           "reason": REASONS[(number + place) % len(REASONS)]}
                                   for place, name in enumerate(names)]) for number in range(100)]
    text = page(run_of([attach, *steps]))
    assert "40 more regions are in the table below" in text
    assert "2,000 smaller parameters are not shown" in text
    assert len(text) < 4_000_000


# Long runs

def test_a_long_run_makes_a_small_page_and_keeps_its_peaks():
    run = long_run(20_000)
    assert MAX_COLUMNS / 2 <= len(run.columns) <= MAX_COLUMNS
    assert max(column.cell.loss.maximum for column in run.columns) == 100.0
    assert sum(column.cell.steps for column in run.columns) == 20_000
    assert len(page(run)) < 1_000_000


def test_steps_can_be_far_apart():
    run = long_run(50, stride=10**12)
    assert len(run.columns) <= MAX_COLUMNS
    assert Checker(page(run)).open == []


@given(st.lists(st.tuples(st.integers(0, 10_000), st.floats(-1e6, 1e6)), min_size=1, max_size=200),
       st.integers(2, 50))
def test_columns_keep_minimum_maximum_and_sum(points, most):
    points.sort()
    columns = Columns(most)
    for number, value in points:
        cell = columns.at(number)
        cell.steps += 1
        cell.loss.add(value)
    assert len(columns) <= most
    for parts in (list(columns), fewer(columns, 7)):
        total = StepCell()
        for column in parts:
            assert column.last - column.first + 1 >= columns.width
            total.merge(column.cell)
        values = [value for _, value in points]
        assert (total.steps, total.loss.minimum, total.loss.maximum) == (len(values), min(values),
                                                                    max(values))
        assert total.loss.total == pytest.approx(sum(values), abs=1e-3)
    assert len(fewer(columns, 7)) <= 7


def test_a_timeline_column_shows_its_worst_state():
    run = long_run(5 * MAX_COLUMNS)
    bad = step(5 * MAX_COLUMNS)
    bad["regions"][0] |= {"route": "fp32", "reason": "non_finite"}
    run.add(bad)
    run.add(step(5 * MAX_COLUMNS + 1))
    assert [(part.reason, part.route) for part in segments(list(run.columns), "body")] == [
        ("admitted", "waterfill:5"), ("non_finite", "fp32")]


def test_the_step_time_has_its_number_of_steps():
    dense = [step(number, epoch=1, seconds=0.5) for number in range(7)]
    since = [step(number, epoch=2) for number in range(7, 10)]
    assert "<p>median of 3 steps</p>" in page(run_of([ATTACH, *dense, *since]))
    untimed = page(run_of([ATTACH, step(0, seconds=None)]))
    assert "median of" not in untimed


def loss_figure(text):
    return text.split("<h3>Loss</h3>", 1)[1].split("</figure>", 1)[0]


def test_the_loss_is_a_line_if_few_steps_have_a_mean_over_ranks():
    quiet = [step(number, loss=None if number % 16 else 2.0, rank_loss=2 - number / 100)
             for number in range(49)]
    text = page(run_of([ATTACH, *quiet]))
    figure = loss_figure(text)
    lines = re.findall(r'<path class="line " [^>]* d="([^"]*)"', figure)
    assert [line.count("L") for line in lines] == [48, 3]
    assert 'class="dots"' not in figure
    assert "rank 0" in figure and "mean over ranks" in figure
    assert "<h2>Loss</h2><strong>1.52</strong><p>rank 0 at step 48</p>" in text


def test_the_loss_of_older_records_is_a_line_over_the_steps_that_have_one():
    old = [step(number, loss=None if number % 16 else 2.0) for number in range(49)]
    for record in old:
        del record["rank_loss"]
    text = page(run_of([ATTACH, *old]))
    lines = re.findall(r'<path class="line " [^>]* d="([^"]*)"', loss_figure(text))
    assert [line.count("L") for line in lines] == [3]
    assert "<h2>Loss</h2><strong>2</strong><p>mean over ranks at step 48</p>" in text


def error_figure(budgets):
    """The figure of regions with these error budgets."""
    regions = [ATTACH["regions"][0] | {"name": f"region_{place}", "error_budget": budget}
               for place, budget in enumerate(budgets)]
    body = step(0)["regions"][0]
    steps = [step(number, regions=[body | {"name": region["name"]} for region in regions])
             for number in range(20)]
    text = page(run_of([ATTACH | {"regions": regions}, *steps]))
    return text.split("<h3>Quantisation error by region</h3>", 1)[1].split("</figure>", 1)[0]


@pytest.mark.parametrize("budgets", [[0.1, 0.1, 0.1], [0.1, 0.099, 0.098], [0.1, 0.09, 0.0021],
                                     [0.1 / 1.01 ** place for place in range(40)]])
def test_labels_of_budgets_never_overlap(budgets):
    figure = error_figure(budgets)
    places = sorted(float(y) for y in re.findall(r'<text class="label limit end"[^>]* y="([^"]*)"',
                                                 figure))
    assert len(places) == min(len(set(budgets)), len(places)) >= 1
    assert all(after - before >= 15 for before, after in zip(places, places[1:]))
    assert all(10 <= place <= 210 for place in places)
    for budget in set(budgets):  # including budgets without room for a label
        assert f": {units.number(budget)}</title></path>" in figure
    assert len(places) == len(set(budgets)) or len(places) >= 10


# Narrow windows

def test_wide_figures_scroll_and_the_page_does_not(tmp_path):
    text = make_page(write(tmp_path, fake_run.records(steps=300)))
    wide = text.count('<svg viewBox="0 0 1160 ')
    assert wide == 3
    assert text.count('<div class="scroll"><svg viewBox="0 0 1160 ') == wide
    style = text.split("<style>", 1)[1].split("</style>", 1)[0]
    rules = dict(re.findall(r"^([^{}@\n]+) \{([^{}]*)\}", style, re.M))
    assert "overflow-wrap: anywhere" in rules["body"]
    assert "overflow-x" not in rules[".card"]
    assert "nowrap" not in rules[".key"]
    assert "overflow-x: auto" in rules[".scroll"]


def test_the_mean_of_no_values_is_none():
    assert Spread().mean is None


# Killed and resumed jobs, and records of other versions

def test_a_truncated_last_line_is_omitted_with_a_note(tmp_path):
    write(tmp_path, RUN[:3], ending='\n{"event":"step","st')
    run = read_run(tmp_path)
    assert run.summary.steps == 2
    assert "The last line is incomplete, as after a killed job, and is omitted." in run.notes
    assert "There is no detach record: the job still runs, or was killed." in run.notes


def test_a_resumed_job_shows_only_its_final_steps(tmp_path):
    first = [ATTACH, step(0), step(1), step(2), FALLBACK | {"step": 3}, step(3, loss=50.0)]
    second = [ATTACH, FALLBACK, step(2), step(3), step(4), DETACH]
    path = write(tmp_path, first, ending='\n{"event":"st\n') / "rank0.jsonl"
    with open(path, "a") as file:
        file.writelines(json.dumps(record) + "\n" for record in second)
    run = read_run(tmp_path)
    assert [(column.first, column.cell.loss.mean) for column in run.columns] == [
        (0, 1.5), (1, 1.5), (2, 1.5), (3, 1.5), (4, 1.5)]
    assert [decision.step for decision in run.decisions] == [2]
    assert run.notes == ["1 line could not be read: omitted. The first is line 7.",
                         "The job was attached 2 times.",
                         "It resumed from an earlier step 1 time, last from 3 to 2; plots "
                         "omit the repeated steps."]
    assert run.summary.steps == 7  # repeated steps sent bytes, too


def test_plots_omit_undone_steps_in_wide_columns():
    columns = Columns(most=4)
    for number in range(16):
        columns.at(number).steps += 1
    assert columns.width == 4
    columns.cut(10)
    assert [(column.first, column.cell.steps) for column in columns] == [(0, 4), (4, 4)]
    columns.at(10).steps += 1
    assert [(column.first, column.cell.steps) for column in columns] == [(0, 4), (4, 4), (8, 1)]
    columns.cut(8)
    assert [column.first for column in columns] == [0, 4]


def test_a_job_that_starts_over_resets_its_plots():
    run = run_of([ATTACH, step(100), step(101), ATTACH, step(0), step(1)])
    assert [column.first for column in run.columns] == [0, 1]


def test_unknown_records_are_omitted_with_a_note():
    run = run_of([ATTACH, {"event": "tomorrow"}, step(0), DETACH])
    assert run.notes == ["1 record of an unknown kind: omitted."]


def test_the_page_shows_rank_0_and_lists_the_other_ranks(tmp_path):
    for rank in (0, 1, 10):
        write(tmp_path, [ATTACH | {"rank": rank}, step(0), DETACH], rank=rank)
    run = read_run(tmp_path)
    assert run.rank == 0
    assert run.notes == ["The page shows rank 0; there are also files of ranks 1, 10."]
    assert read_run(tmp_path / "rank10.jsonl").rank == 10


def test_other_models_of_the_job_are_listed(tmp_path):
    for folder in (tmp_path, tmp_path / "model2", tmp_path / "model3"):
        write(folder, [ATTACH, step(0), DETACH])
    assert read_run(tmp_path).notes == ["The job had several models; make pages of their folders "
                                        "too: model2, model3."]


# The command

def test_the_command_writes_the_page_and_prints_its_path(tmp_path):
    write(tmp_path, RUN)
    output = tmp_path / "page.html"
    done = subprocess.run([sys.executable, "-m", "neuron_fabric.report", tmp_path, "-o", output],
                          capture_output=True, text=True, check=True,
                          env=os.environ | {"PYTHONPATH": str(PYTHON_DIR)})
    assert re.fullmatch(rf"wrote {re.escape(str(output))}: 2 steps, [\d.]+ kB\n", done.stdout)
    assert done.stderr == ""
    assert output.read_text().startswith("<!DOCTYPE html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "rank0.jsonl"]


def rejection(capsys, *arguments):
    assert main([str(argument) for argument in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("nf report: ") and err.count("\n") == 1
    return err


def test_invalid_input_is_a_one_line_error_with_exit_status_2(tmp_path, capsys):
    folder = tmp_path / "runs_today"
    folder.mkdir()
    assert "did you mean" in rejection(capsys, tmp_path / "run_today")
    assert str(folder) in rejection(capsys, tmp_path / "run_today")
    assert "there is no folder" in rejection(capsys, tmp_path / "a" / "b")
    assert "has no rank0.jsonl" in rejection(capsys, folder)
    file = folder / "rank0.jsonl"
    for text, words in [("", "is empty"), ("\n\n", "is empty"), ("hello\n", "it is not JSON"),
                        ("\x00\xff" * 100, "it is not JSON"), ("[1, 2]\n", 'it has no "event"'),
                        ('{"codec": "bf16"}\n', 'it has no "event"'),
                        ("[" * 100_000, "it is not JSON"),
                        (json.dumps(step(0)) + "\n", "line 1 does not start with an attach"),
                        (json.dumps(NOTICE) + "\n", "is empty"),
                        (json.dumps(ATTACH | {"ranks": "two"}), '"ranks" is not a whole number')]:
        file.write_bytes(text.encode("latin-1"))
        assert words in rejection(capsys, folder)
    write(folder, RUN)
    assert "cannot write" in rejection(capsys, folder, "-o", tmp_path / "no" / "page.html")
    assert "cannot write" in rejection(capsys, folder, "-o", folder)


def test_a_folder_in_place_of_a_file_is_rejected(tmp_path):
    (tmp_path / "rank0.jsonl").mkdir()
    with pytest.raises(RunError, match="cannot read"):
        read_run(tmp_path)


def test_unknown_options_are_errors(capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["run", "--colour"])
    assert exit_info.value.code == 2


# Building blocks of the figures

@given(st.floats(1e-9, 1e12), st.floats(1.001, 1e9), st.booleans())
def test_ticks_are_few_and_within_the_range(low, factor, is_log):
    scale = Scale(low, low * factor, 0, 100, is_log)
    ticks = scale.ticks(6)
    assert len(ticks) <= 7
    assert all(-0.5 <= scale(tick) <= 100.5 for tick in ticks)
    assert is_log or len(ticks) >= 2


def test_one_outlier_does_not_flatten_a_plot():
    assert limits([1.0] * 200 + [50.0])[1] < 2
    assert limits([1.0, 2.0, 3.0])[1] > 3
    assert limits([None, 0.0]) == (0.0, 1.0)
    assert log_limits([None, 0.0, -1.0]) is None


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=60))
def test_areas_of_the_map_are_proportional_and_fill_it(sizes):
    sizes.sort(reverse=True)
    room = Rect(0, 0, 1160, 330)
    rects = squarify(sizes, room)
    assert len(rects) == len(sizes)
    for size, rect in zip(sizes, rects, strict=True):
        share = rect.width * rect.height / (room.width * room.height)
        assert share == pytest.approx(size / sum(sizes), rel=1e-6)
        assert rect.x >= -1e-6 and rect.x + rect.width <= room.width + 1e-6
        assert rect.y >= -1e-6 and rect.y + rect.height <= room.height + 1e-6
