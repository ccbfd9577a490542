"""The text that a calibration prints, while it runs and at the end."""

from neuron_fabric.calibration import text
from neuron_fabric.calibration.evidence import Assignment, Branches, Evidence, RegionFacts
from neuron_fabric.calibration.watch import CalibrationConsole, TimeLeft

HARM = {"harm": 0.0123, "standard_error": 0.004, "pairs": 2}
OUTCOME = {
    "target": "1%", "most_harm": 0.02, "meets_target": True, "bytes_up_ratio": 0.125,
    "chosen": {"head": "fp32", "body": "waterfill:4"}, "at_first": {"body": "waterfill:4"},
    "routes": [
        {"region": "body", "route": "g_binary", "bytes_up": 5, "dense_bytes": 100, "error": 0.4,
         "slope": 0.9, "agreement": 0.75, "chosen": False} | HARM | {"harm": None},
        {"region": "body", "route": "waterfill:4", "bytes_up": 13, "dense_bytes": 100, "error": None,
         "slope": None, "agreement": None, "chosen": True} | HARM],
    "branches": [
        {"start": "checkpoint", "routes": {}, "bytes_up_ratio": 1.0, "within_target": True,
         "chosen": False} | HARM,
        {"start": "checkpoint", "routes": {"body": "waterfill:4"}, "bytes_up_ratio": 0.125,
         "within_target": True, "chosen": True} | HARM]} | HARM


def test_the_tables():
    assert text.tables(OUTCOME) == """\
region  route        of its bytes  error of the sum  slope  signs kept        harm alone
body    g_binary              5 %          4.00e-01  0.900        75 %          diverged
        waterfill:4          13 %                 -      -           -  +0.0123 ± 0.0040  chosen

routes            from         bytes              harm  pairs
body=waterfill:4  checkpoint  12.5 %  +0.0123 ± 0.0040      2  within the target, chosen"""


def test_the_conclusion_contains_the_first_low_bit_step():
    assert text.conclusion(OUTCOME) == (
        "body=waterfill:4, the rest dense, from the first step on:\n12.5 % of the dense bytes up, at "
        "+0.0123 ± 0.0040 of loss; the limit is 0.02 of loss (target 1%)")
    assert "after dense first steps" in text.conclusion(OUTCOME | {"at_first": None})
    assert "after first steps with body=bf16" in text.conclusion(OUTCOME | {"at_first": {"body": "bf16"}})
    assert text.conclusion(OUTCOME | {"meets_target": False}).startswith("only full precision")


def test_a_pipe_gets_one_line_per_task(capsys):
    console = CalibrationConsole()
    console.begin("dense training", 2)
    console.step()
    console.step()
    console.left = 12.4
    console.end("loss 2.000 to 1.000")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("dense training ")
    assert "loss 2.000 to 1.000" in line
    assert line.endswith("about 12 s left")


def test_the_time_left_decreases_with_every_answer():
    facts = tuple(RegionFacts(name, 1, 1, 0, {}) for name in ("body", "head"))
    evidence = Evidence(ranks=2, regions=facts, candidates=("g_binary",))
    left = TimeLeft()
    estimates = []
    for route in ("g_binary", "g_ternary"):
        evidence = evidence.with_branches(
            Branches("checkpoint", Assignment.of({"body": route}), (1.0,)))
        left.answered(10.0)
        estimates.append(left.estimate(evidence))
    assert estimates == [80.0, 70.0]
