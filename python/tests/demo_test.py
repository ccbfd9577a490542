"""nf demo: its output, and its exit if a rank fails."""

import importlib.util
import json
import os
import re
import subprocess
import sys

import forked_python
import pytest
from neuron_fabric_lab import demo
from neuron_fabric_lab.progress import Progress

needs_extension = pytest.mark.skipif(
    importlib.util.find_spec("neuron_fabric._C") is None,
    reason="the extension neuron_fabric._C is not built")


def result(variant, accuracy, loss, sent):
    return {"title": variant.title, "accuracy": accuracy, "loss": loss, "bytes": sent,
            "dense_bytes": 4e6, "step_seconds": 0.125, "seconds": 61.25}


RESULTS = [result(variant, *figures) for variant, figures in
           zip(demo.VARIANTS, [(0.4375, 2.25, 4e6), (0.375, 2.5, 4e5), (0.4385, 2.24, 1e6)],
               strict=True)]


def test_the_table_has_one_aligned_row_per_run():
    assert demo.table(RESULTS) == """\
run               accuracy    loss  sent per step  of plain    step   total
plain DDP          43.75 %  2.2500           4 MB     100 %  125 ms  61.2 s
route="g_binary"   37.50 %  2.5000         400 kB      10 %  125 ms  61.2 s
admit="safe"       43.85 %  2.2400           1 MB      25 %  125 ms  61.2 s"""


def test_the_conclusion_compares_with_plain():
    text = demo.conclusion(RESULTS)
    assert "10 % of plain DDP's bytes, at +0.2500 of loss and -6.25 points of accuracy" in text
    assert "25 % of plain DDP's bytes, at -0.0100 of loss and +0.10 points of accuracy" in text


def test_progress_in_a_pipe_is_a_few_lines(capsys):
    progress = Progress("plain DDP", 100)
    for step in range(1, 101):
        progress(step, 1.0)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[3] for line in lines] == ["25", "50", "75", "100"]


@pytest.mark.parametrize(("options", "words"), [
    (["--steps", "0"], "'0' is not a whole number above 0"),
    (["--seed", "-1"], "'-1' is not a whole number of at least 0"),
    (["--ranks", "1"], "a single rank sends nothing; use 2 or more")])
def test_invalid_demo_options_are_reported(capsys, options, words):
    with pytest.raises(SystemExit) as end:
        demo.main(options)
    assert end.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(("ranks", "cards", "architectures", "has_mps", "device", "why_not"), [
    (4, 0, "", False, "cpu", ""),
    (4, 4, "90-real", False, "cuda", ""),
    (4, 1, "90-real", True, "cuda", ""),
    (4, 1, "90-real", False, "cpu", "4 ranks would wait for each other on 1 device; start MPS"),
    (2, 2, "", False, "cpu", "this build contains no device code; build with `NF_CUDA=ON make build`")])
def test_the_demo_uses_devices_that_ranks_need_not_wait_for(ranks, cards, architectures, has_mps, device, why_not):
    found, why = demo.choose_device(ranks, cards, architectures, has_mps)
    assert found == device
    assert why.startswith(why_not) and bool(why) == bool(why_not)


def run_demo(out, *options, **environment):
    return subprocess.run(
        [forked_python.executable(), "-m", "neuron_fabric_lab.demo", "--workload", "digits", "--size", "tiny",
         "--ranks", "2", "--out", str(out), *options],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | forked_python.environment() | environment,
        capture_output=True, text=True, timeout=240, check=False)


@needs_extension
def test_the_demo_makes_three_runs_and_a_report(tmp_path):
    done = run_demo(tmp_path, "--steps", "30", "--json")
    assert done.returncode == 0, done.stderr
    plain, static, safe = map(json.loads, done.stdout.splitlines())
    assert static["bytes"] < safe["bytes"] < plain["bytes"]
    assert [run["route"] for run in (plain, static, safe)] == ["plain", "g_binary", "default"]
    assert len({run["losses"][0] for run in (plain, static, safe)}) == 1, "the same seed and data"
    assert safe["command"].startswith("nf demo --workload digits")
    assert safe["loss"] == pytest.approx(plain["loss"], rel=0.2)
    assert "<html" in (tmp_path / "demo-report.html").read_text()


@needs_extension
def test_the_demo_fails_with_the_message_of_a_failed_rank(tmp_path):
    done = run_demo(tmp_path, "--steps", "2", NF_MODE="sometimes")
    assert done.returncode == 1
    assert re.search("nf demo: rank [01]: .*NF_MODE must be one of .* not 'sometimes'", done.stderr)
