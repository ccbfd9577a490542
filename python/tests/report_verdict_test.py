"""The first sentence of a report states whether low bits paid off, and gives advice."""

import copy

import pytest
from few_records import ATTACH, step

from neuron_fabric.report.page import page
from neuron_fabric.report.run import Run
from neuron_fabric.report.verdict import verdict

DENSE, LOW_BIT = 0.125, 0.143


def run_of(records):
    run = Run("folder", 0)
    for record in records:
        run.add(record)
    run.end()
    return run


def made(number, seconds, route="waterfill:5", reason="admitted", **changes):
    """A step of one region, with slightly varying times."""
    record = step(number, seconds=seconds * (1 + 0.01 * (number % 3 - 1)), **changes)
    body = record["regions"][0] | {"route": route, "reason": reason}
    if route == "fp32":
        body |= {"bytes": body["dense_bytes"]}
    return record | {"regions": [body]}


def run_with(low_bit, dense=DENSE, admit="safe", warm_up=20, steps=100, **attach):
    records = [ATTACH | {"admit": admit, "regions": ATTACH["regions"][:1]} | attach]
    records += [made(number, dense, "fp32", "warm_up") for number in range(warm_up)]
    records += [made(number, low_bit) for number in range(warm_up, steps)]
    return run_of(records)


def test_low_bits_that_make_steps_longer_did_not_pay_off():
    found = verdict(run_with(LOW_BIT))
    assert found.kind == "lost"
    assert found.text == (
        "Low bits did not pay off in this run: with them a step took 143 ms (median of 79 steps), "
        "without them 125 ms (median of 19 steps), both measured here; they sent 15.6 % of the "
        "dense bytes.")
    assert 'admit="useful"' in found.advice


@pytest.mark.parametrize("admit, words", [("forced", "Omit route="), ("useful", "NF_MODE=off"),
                                          ("safe", 'Use admit="useful"')])
def test_the_advice_differs_from_the_settings_of_the_run(admit, words):
    assert words in verdict(run_with(LOW_BIT, admit=admit)).advice


def test_low_bits_that_make_steps_shorter_paid_off():
    found = verdict(run_with(0.1))
    assert found.kind == "paid"
    assert found.text.startswith("Low bits paid off in this run: with them a step took 100 ms")
    assert "20 % less" in found.text
    assert found.advice == "Keep these settings."


def test_a_difference_within_the_noise_does_not_count():
    found = verdict(run_with(0.1251))
    assert found.kind == "even"
    assert found.text.startswith("Low bits made no measurable difference to the step time")


def test_the_step_at_which_routes_change_is_not_timed():
    """`seconds` is the time from the first bucket of the previous step to the first of this one."""
    run = run_with(LOW_BIT)
    assert (len(run.dense_seconds), len(run.low_bit_seconds)) == (19, 79)


def test_only_the_last_steps_of_a_long_run_count():
    text = verdict(run_with(LOW_BIT, steps=1200)).text
    assert "with them a step took 143 ms (median of the last 1,000 steps)" in text


def test_without_dense_steps_there_is_no_verdict():
    found = verdict(run_with(LOW_BIT, admit="forced", warm_up=0))
    assert found.kind == "even"
    assert found.text.startswith("This run does not show whether low bits paid off: all but 0 of its "
                                 "100 steps used them")
    assert "15.6 % of the dense bytes" in found.text
    assert "NF_MODE=off" in found.advice
    assert "paid off in this run" not in found.text


def test_few_steps_give_no_verdict():
    found = verdict(run_with(LOW_BIT, steps=23))
    assert found.text == ("This run does not show whether low bits paid off: it has timed 19 steps "
                          "without them and 2 with them.")


@pytest.mark.parametrize("reason, words", [
    ("not_useful", "the cost model predicted that they would not shorten a step"),
    ("warm_up", "the run did not get past its warm-up"),
    ("error_budget", "breaches disabled them (body: error_budget)"),
    ("locked_out", "breaches disabled them (body: locked_out)")])
def test_the_reason_for_dense_routes_is_named(reason, words):
    attach = ATTACH | {"regions": ATTACH["regions"][:1]}
    found = verdict(run_of([attach, *[made(n, DENSE, "fp32", reason) for n in range(9)]]))
    assert found.text.startswith("Low bits were not used in this run: ")
    assert words in found.text
    assert found.advice


def test_a_profile_without_low_bits_has_nothing_to_judge():
    attach = ATTACH | {"regions": ATTACH["regions"][1:]}
    dense = step(0)
    dense["regions"] = dense["regions"][1:]
    found = verdict(run_of([attach, dense]))
    assert "the profile sends every region at full precision" in found.text


def shadow(low_bit_seconds):
    attach = ATTACH | {"mode": "shadow", "regions": ATTACH["regions"][:1]}
    steps = [made(number, DENSE, predicted_exposed_seconds=0.05, shadow_bytes=2560,
                  shadow_exposed_seconds=low_bit_seconds) for number in range(9)]
    for record in steps:
        region = record["regions"][0]
        region |= {"shadow_route": region["route"], "route": "fp32", "bytes": region["dense_bytes"]}
    return run_of([attach, *steps])


def test_a_verdict_of_shadow_mode_is_marked_as_a_prediction():
    found = verdict(shadow(0.03))
    assert found.text == (
        "Shadow mode: everything was sent at full precision. Low bits would have sent 15.6 % of the "
        "dense bytes and shortened a step by 20 ms of 125 ms, as predicted, not measured.")
    assert found.advice == "Unset NF_MODE to use them."
    assert found.kind == "paid"
    found = verdict(shadow(0.06))
    assert "would not have shortened a step, as predicted, not measured" in found.text
    assert found.kind == "even"


def test_one_rank_has_nothing_to_send():
    assert verdict(run_with(LOW_BIT, ranks=1)).text.startswith("A single rank sends nothing")


def test_a_region_that_is_locked_out_is_named():
    records = [made(number, DENSE, "fp32", "warm_up") for number in range(20)]
    records += [made(number, 0.1) for number in range(20, 90)]
    records.append(made(90, 0.1, "fp32", "locked_out"))
    found = verdict(run_of([ATTACH | {"regions": ATTACH["regions"][:1]}, *records]))
    assert found.kind == "paid"
    assert "body stays dense after too many fallbacks" in found.advice


def test_a_run_without_steps_has_no_verdict():
    assert verdict(run_of([ATTACH])) is None
    assert 'class="verdict' not in page(run_of([ATTACH]))


def test_the_verdict_is_at_the_top_of_the_page():
    text = page(run_with(LOW_BIT))
    head, _, rest = text.partition('<p class="verdict lost">')
    assert rest.startswith("<strong>Low bits did not pay off in this run: ")
    assert head.rstrip().endswith("</h1>")


def test_the_title_comes_from_the_records_not_from_the_folder():
    text = page(run_with(LOW_BIT))
    title = "default profile · 4,096 parameters · 2 ranks · 2001-09-09 01:46 UTC"
    assert f"<title>{title} · NEURON-Fabric</title>" in text
    assert f"<h1>{title}</h1>" in text
    assert "<dt>folder</dt><dd>folder</dd>" in text


def test_the_title_has_the_forced_route_and_the_model_if_known():
    large = copy.deepcopy(ATTACH["regions"][:1])
    large[0]["values"] = 123_600_000
    text = page(run_with(LOW_BIT, admit="forced", regions=large, model="Gpt<2>", time=None))
    assert "<h1>Gpt&lt;2&gt; · waterfill:5 route · 124 M parameters · 2 ranks</h1>" in text
