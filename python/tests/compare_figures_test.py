"""The output of nf compare for several runs: figures, tables, sentences, pictures and pages."""

import importlib.util
import json

import pytest
from compared_runs import RUNS, run
from neuron_fabric_lab.compare import intervals, page, pictures, race, words
from neuron_fabric_lab.compare.figures import compare
from neuron_fabric_lab.train.__main__ import summary_of
from neuron_fabric_lab.train.result import own_times
from neuron_fabric_lab.train.target import Target, to_target

pytestmark = pytest.mark.skipif(importlib.util.find_spec("neuron_fabric._C") is None,
                                reason="the extension neuron_fabric._C is not built")


def test_differences_are_paired_and_have_a_t_interval():
    difference = intervals.paired({1: 3.0, 2: 5.0, 3: 7.0, 9: 0.0}, {1: 1.0, 2: 2.0, 3: 3.0})
    assert difference.mean == pytest.approx(3)
    assert difference.high == pytest.approx(3 + 2.920 / 3**0.5)
    assert difference.low == pytest.approx(3 - 2.920 / 3**0.5)
    assert intervals.paired({1: 2.0}, {1: 1.0}) == intervals.Difference(1.0)
    assert intervals.paired({1: 2.0}, {2: 1.0}) is None


@pytest.mark.parametrize(("freedom", "t"), [(1, 6.314), (2, 2.920), (5, 2.015), (10, 1.812), (20, 1.725),
                                            (21, 1.721), (30, 1.697), (100, 1.660), (10**6, 1.645)])
def test_t_values_are_correct_for_any_number_of_pairs(freedom, t):
    assert intervals.t95(freedom) == pytest.approx(t, abs=5e-4)


def test_the_figures_of_a_route():
    compared = compare(RUNS)
    assert compared.baseline == "fp32"
    assert compared.pace.route == "bf16"
    assert compared.target == Target("accuracy", pytest.approx(0.895)), "all runs of the fastest baseline reach it"
    rows = {row.route: row for row in compared.rows}
    assert list(rows) == ["fp32", "bf16", "g_binary", "waterfill:4", "default"]
    assert rows["fp32"].difference is None
    assert rows["g_binary"].difference.mean == pytest.approx(-0.095)
    assert (rows["g_binary"].reached, rows["g_binary"].arrival) == (0, None)
    arrival = rows["waterfill:4"].arrival
    assert (arrival.seconds, arrival.steps, arrival.bytes) == (5, 10, 20)


def test_one_slow_run_does_not_change_the_step_and_exposed_time():
    slow = run("fp32", 3, 0.91, step_seconds=2.0, exposed_seconds=1.9)
    row = compare([*RUNS[:2], slow]).rows[0]
    assert (row.step_seconds, row.exposed_seconds) == (0.1, 0.05)
    unknown = run("fp32", 4, 0.91, exposed_seconds=None)
    assert compare([*RUNS[:2], unknown]).rows[0].exposed_seconds is None


def test_a_named_baseline_replaces_the_default_ones():
    compared = compare(RUNS, "waterfill:4")
    assert (compared.baseline, compared.pace.route) == ("waterfill:4", "waterfill:4")
    assert compared.target.value == pytest.approx(0.9)
    alone = compare([run("g_binary", 1, 0.8)])
    assert (alone.baseline, alone.pace, alone.target) == (None, None, None)
    assert race.target_rows(alone) == race.sentences(alone) == []


def test_the_tables():
    compared = compare(RUNS, target=Target("accuracy", 0.9))
    assert words.route_rows(compared)[3] == [
        "g_binary", "2", "81.50 %", "1.0000", "2.12", "-9.50", "-12.66 to -6.34", "50 %", "25 %", "100 ms",
        "50 ms"]
    head, _, bf16, g_binary, waterfill, _ = race.target_rows(compared)
    assert head[-3:] == ["time / bf16", "steps / bf16", "bytes / bf16"]
    assert bf16 == ["bf16", "2 of 2 runs", "10 s", "10", "20 B", "1.00 x", "1.00 x", "1.00 x"]
    assert g_binary == ["g_binary", "never", "-", "-", "-", "-", "-", "-"]
    assert waterfill[2:6] == ["5 s", "10", "20 B", "0.50 x"]
    row = json.loads(words.json_lines(compared).splitlines()[-1])
    assert set(row) == set(words.KEYS)
    assert row["target"] == {"accuracy": 0.9}
    assert (row["seconds_to_target"], row["steps_to_target"], row["bytes_to_target"]) == (6, 10, 20)


def test_markdown_quotes_only_the_route():
    compared = compare([*RUNS, run("thc", 1, 0.1, diverged=True)])
    assert "| `thc` | 1 (1 diverged) |" in words.markdown(words.route_rows(compared))


def test_routes_that_do_not_pay_off_and_routes_faster_than_the_best_profile_are_named():
    compared = compare([*RUNS, run("profile:a.json", 1, 0.91, 11.0)], target=Target("accuracy", 0.9))
    assert race.sentences(compared) == [
        "fp32 does not pay off: it takes as long as bf16 to reach the target",
        "g_binary does not pay off: no run reached the target",
        "waterfill:4 reaches the target in 0.50 x the time of bf16",
        "default reaches the target in 0.60 x the time of bf16",
        "profile:a.json does not pay off: it takes 1.10 x as long as bf16 to reach the target",
        "the fastest profile is default: it reaches the target after 6 s; faster: waterfill:4 (5 s)"]


def test_the_fastest_profile_is_named_or_none():
    first = compare([run("bf16", 1, 0.9), run("default", 1, 0.9, 8.0)])
    assert race.sentences(first)[-1] == (
        "the fastest profile is default: it reaches the target after 8 s; no other route is faster")
    never = compare(RUNS, target=Target("accuracy", 0.92))
    assert race.sentences(never) == [
        "fp32 does not pay off: only 1 of 2 runs reached the target",
        "bf16 does not pay off: only 1 of 2 runs reached the target",
        "g_binary does not pay off: no run reached the target",
        "waterfill:4 does not pay off: only 1 of 2 runs reached the target",
        "default does not pay off: only 1 of 2 runs reached the target",
        "no profile reaches the target in every run"]


def test_a_target_can_be_a_loss(tmp_path):
    worse = [run("g_binary", seed, 0.8, loss=2.5 - seed / 10) for seed in (1, 2)]
    for result in worse:
        result["curve"][-1]["loss"] = result["loss"]
    compared = compare([*RUNS[:4], *worse], target=Target("loss", 1.6))
    assert words.route_rows(compared)[3][3:7] == ["2.3500", "0.0707", "+1.3500", "+1.0343 to +1.6657"]
    assert "difference: loss relative to fp32" in words.legend(compared)
    assert race.title(compared) == "Training until the first evaluation that reaches a loss of 1.6:"
    assert race.target_rows(compared)[2][2:5] == ["10 s", "10", "20 B"]
    assert race.sentences(compared)[-1] == "g_binary does not pay off: no run reached the target"
    pictures.draw(compared, [tmp_path / "loss.svg"])
    drawn = (tmp_path / "loss.svg").read_text()
    assert "<!-- loss -->" in drawn
    assert "<!-- digits, 2 ranks, 2 seeds -->" in drawn


def test_fallbacks_are_reported():
    fallen = run("default", 1, 0.9, fallbacks=[{"step": 7, "reason": "norm_spike"}])
    assert words.fallbacks(compare([*RUNS[:-2], fallen, run("default", 2, 0.9)])) == [
        "default fell back in 1 of 2 runs, first at step 7: norm_spike"]


def test_runs_of_several_commits_are_reported(tmp_path):
    resumed = run("default", 2, 0.92, 6.0, commit="abc, def+changes")
    assert words.several_commits(compare(RUNS)) == ""
    compared = compare([*RUNS[:-1], resumed])
    assert words.several_commits(compared) == "the runs are of 2 commits: abc, def+changes"
    assert "Commit: abc, def+changes. Command" in page.origin(compared.results)


def test_a_page_has_tables_pictures_and_their_origin(tmp_path):
    folder = tmp_path / "results" / "small"
    folder.mkdir(parents=True)
    for number, result in enumerate(RUNS):
        (folder / f"{number}.json").write_text(json.dumps(result))
    (folder / page.NOTE).write_text("One run has had the machine to itself.\n")
    (tmp_path / "results" / "empty").mkdir()
    made = tmp_path / "results.md"
    folders = [folder, tmp_path / "results" / "empty"]
    assert page.make_page(folders, made, tmp_path / "img") == ["empty"]
    text = made.read_text()
    assert "## small: digits (tiny), 2 ranks" in text
    assert "\n\nOne run has had the machine to itself.\n\n| route |" in text
    assert "| `g_binary` | 2 |" in text
    assert "a processor, 2 cores, PyTorch 2.11. Commit: abc" in text
    assert "](img/results_small.svg)" in text
    picture = (tmp_path / "img" / "results_small.svg").read_bytes()
    assert b"<svg" in picture
    page.make_page(folders, made, tmp_path / "img")
    assert (tmp_path / "img" / "results_small.svg").read_bytes() == picture
    (folder / "9.json").write_text("{half")
    with pytest.raises(page.PageError, match="9.json"):
        page.make_page(folders, made, tmp_path / "img")


def test_a_page_omits_the_times_of_runs_on_a_shared_machine(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    for number, result in enumerate(RUNS):
        (folder / f"{number}.json").write_text(json.dumps(result))
    made = tmp_path / "page.md"
    page.make_page([folder], made, tmp_path / "img")
    alone = made.read_text()
    assert "| step | exposed |" in alone
    assert "| time |" in alone
    (folder / page.SHARED_NOTE).write_text("Three jobs at a time.\n")
    page.make_page([folder], made, tmp_path / "img")
    shared = made.read_text()
    assert "\n\nThree jobs at a time.\n\n| route |" in shared
    assert "| bytes | up |\n" in shared
    for word in ("exposed", "| time |", "reaches the target", "fastest"):
        assert word not in shared


def test_runs_marked_as_sharing_their_machine_have_no_times(tmp_path):
    results = [*RUNS[:-1], run("default", 2, 0.92, 6.0, shared_machine=True)]
    for number, result in enumerate(results):
        (tmp_path / f"{number}.json").write_text(json.dumps(result))
    made = tmp_path / "page.md"
    page.make_page([tmp_path], made, tmp_path / "img")
    assert "exposed" not in made.read_text()
    assert "- times are omitted: 1 of 10 runs shared the machine with others" in made.read_text()
    rows = [json.loads(line) for line in words.json_lines(compare(results)).splitlines()]
    assert [row["step_seconds"] for row in rows] == [0.1] * 9 + [None]
    assert rows[-1]["seconds_to_target"] is None
    assert rows[-1]["steps_to_target"] == 10
    target = Target("loss", 1.0)
    text = summary_of(own_times(results[-1] | to_target(target, results[-1]["curve"])), target)
    assert text.splitlines()[2:] == ["the run shared the machine with other runs: its times are omitted",
                                     "a loss of 1 after 10 steps, 20 B sent"]
