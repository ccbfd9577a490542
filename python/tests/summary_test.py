"""A summary aggregates records, as text and as a dictionary."""

import json

from fake_run import records
from few_records import ATTACH, FALLBACK, NOTICE, RUN, step, unmonitored

from neuron_fabric.summary import RECENT_STEPS, Summary, SummaryReader
from neuron_fabric.summary_text import SHOWN_FALLBACKS

REGION = ATTACH["regions"][1]["name"]
PLAIN = json.loads(json.dumps(RUN).replace(json.dumps(REGION)[1:-1], "head"))

TEXT = """\
neuron_fabric 0.1.0: 2 ranks, mode on, admit useful, profile default
2 steps to step 1, 1 skipped
loss 1 at step 1 on this rank, 1.5 at step 0 as the mean over ranks
sent 5.25 kB (dense: 32.9 kB), ratio 0.160
step 250 ms, exposed 125 ms, predicted 62.5 ms (medians of 2 steps)
warnings: 1, the last: mind the gap

region  route        now          reason    low bit     sent  ratio  norm  quantisation error  budget  fallbacks
body    waterfill:5  waterfill:5  admitted    100 %  5.12 kB  0.156   0.5               0.002     0.1          1
head    fp32         fp32         admitted      0 %    128 B  1.000     2                   -       -          0

fallbacks
step  region  reason
2     body    non_finite"""


def test_the_text():
    assert str(Summary.of(PLAIN)) == TEXT


def test_measured_topologies_are_shown_the_fastest_first():
    attach = ATTACH | {"topology_ms": {"direct": 12.34, "tree": 8, "ring": 1500}}
    text = str(Summary.of([attach]))
    assert "topology direct; measured for a bucket: tree 8 ms, direct 12.3 ms, ring 1.5 s\n" in text


def test_the_topology_of_a_checkpoint_replaces_that_of_the_job():
    summary = Summary.of([ATTACH, {"event": "topology", "topology": "ring"}, step(0)])
    assert summary.to_dict()["topology"] == "ring"
    assert (summary.attaches, summary.steps) == (1, 1)


def test_the_dictionary():
    result = Summary.of(PLAIN).to_dict()
    assert json.loads(json.dumps(result)) == result
    regions = result.pop("regions")
    assert result == {
        "version": "0.1.0", "ranks": 2, "backend": "gloo", "source": "ddp", "mode": "on", "admit": "useful",
        "topology": "direct", "topology_ms": {}, "profile": "default", "step": 1, "epoch": 1, "steps": 2,
        "skipped_steps": 1, "loss": 1.5, "loss_step": 0,
        "rank_loss": 1.0, "rank_loss_step": 1, "bytes": 5248, "dense_bytes": 32896,
        "up_bytes": 2112, "bytes_ratio": 5248 / 32896, "bytes_up_ratio": 2112 / 16448,
        "step_seconds": 0.25, "exposed_seconds": 0.125, "predicted_exposed_seconds": 0.0625,
        "warnings": 1, "notes": [],
        "fallbacks": [{"step": 2, "epoch": 2, "region": "body", "reason": "non_finite"}]}
    assert regions[0] == {
        "name": "body", "route": "waterfill:5", "route_now": "waterfill:5", "reason": "admitted",
        "parameters": 1, "values": 4096, "steps": 2, "low_bit_steps": 2, "bytes": 5120,
        "dense_bytes": 32768, "up_bytes": 2048, "norm": 0.5, "error": 0.002, "error_budget": 0.1,
        "non_finite": 0, "fallbacks": 1, "bytes_ratio": 0.15625}


def test_contributions_are_unknown_if_a_record_lacks_them():
    old = step(1)
    for region in old["regions"]:
        del region["up_bytes"]
    assert Summary.of([ATTACH, step(0), old]).bytes_up_ratio is None
    assert Summary.of([ATTACH, step(0)]).bytes_up_ratio == 1056 / 8224


def test_times_are_those_of_the_routes_in_use():
    dense = [step(i, epoch=1, seconds=3.0, predicted_exposed_seconds=2.8) for i in range(9)]
    low_bit = [step(i, epoch=2, seconds=0.6, predicted_exposed_seconds=0.4) for i in range(9, 12)]
    summary = Summary.of([ATTACH, *dense, *low_bit])
    assert (summary.step_seconds, summary.predicted_exposed_seconds) == (0.6, 0.4)
    assert summary.steps == 12


def test_an_unmonitored_step_is_not_counted_as_skipped():
    bad = step(0, should_step=False)
    bad["regions"][0] |= {"non_finite": 3}
    summary = Summary.of([ATTACH, bad, unmonitored(1)])
    assert (summary.steps, summary.skipped_steps) == (2, 1)
    assert summary.regions["body"].non_finite == 3
    assert summary.regions["body"].norm == 0.5


def test_the_loss_has_its_step():
    quiet = [step(0, rank_loss=3.0), *[unmonitored(number) | {"rank_loss": 2.0 + number / 100}
                                       for number in range(1, 13)]]
    summary = Summary.of([ATTACH, *quiet])
    assert (summary.loss, summary.loss_step) == (1.5, 0)
    assert (summary.rank_loss, summary.rank_loss_step) == (2.12, 12)
    assert "\nloss 2.12 at step 12 on this rank, 1.5 at step 0 as the mean over ranks\n" in str(summary)


def test_older_records_have_only_the_mean():
    old = step(4)
    del old["rank_loss"]
    assert "\nloss 1.5 at step 4 as the mean over ranks\n" in str(Summary.of([ATTACH, old]))
    no_loss = step(4, loss=None, rank_loss=None)
    assert "loss" not in str(Summary.of([ATTACH, no_loss]))


def test_a_summary_of_no_records_is_empty():
    assert str(Summary()) == "no steps yet"
    assert Summary().to_dict()["bytes_ratio"] is None
    assert str(Summary.of([ATTACH])).splitlines()[1] == "no steps yet"


def test_off_is_not_a_run_without_steps():
    summary = Summary(mode="off")
    assert str(summary) == ("NF_MODE is off: gradients are reduced without the runtime, "
                            "and nothing is recorded")
    assert summary.to_dict()["mode"] == "off"
    assert summary.to_dict()["steps"] == 0


def test_the_mode_is_that_of_the_job():
    assert Summary().to_dict()["mode"] is None
    assert Summary.of([ATTACH]).to_dict()["mode"] == "on"


PARAMETERS = [{"name": "body.weight", "region": "body", "values": 4000, "route": "waterfill:5"},
              {"name": "body.bias", "region": "body", "values": 96, "route": "fp32"},
              {"name": "head.weight", "region": "head", "values": 16, "route": "fp32"}]


def test_parameters_are_described_with_the_route_in_use_and_its_reason():
    attach = PLAIN[0] | {"parameters": PARAMETERS}
    dense = json.loads(json.dumps(PLAIN[1]))
    dense["regions"][0] |= {"route": "fp32", "reason": "not_useful"}
    assert Summary.of([attach, dense]).describe() == """\
parameter    region  profile's route  now   reason      values
body.weight  body    waterfill:5      fp32  not_useful   4,000
body.bias    body    fp32             fp32  small           96
head.weight  head    fp32             fp32  admitted        16"""
    assert Summary.of([attach, PLAIN[1]]).describe().splitlines()[1].split() == [
        "body.weight", "body", "waterfill:5", "waterfill:5", "admitted", "4,000"]


def test_before_the_first_step_no_route_is_in_use():
    lines = Summary.of([PLAIN[0] | {"parameters": PARAMETERS}]).describe().splitlines()
    assert lines[1].split() == ["body.weight", "body", "waterfill:5", "-", "-", "4,000"]
    assert Summary(mode="off").describe().startswith("NF_MODE is off")
    assert Summary().describe() == "no parameters yet"


def test_one_rank_sends_nothing_and_has_no_ratio():
    alone = step(0)
    for region in alone["regions"]:
        region |= {"bytes": 0, "dense_bytes": 0}
    summary = Summary.of([ATTACH, alone])
    assert summary.bytes_ratio is None
    assert "ratio -" in str(summary)


def test_times_are_medians_of_recent_steps():
    early = [step(number, seconds=9.0) for number in range(RECENT_STEPS)]
    late = [step(RECENT_STEPS + number, seconds=1.0) for number in range(RECENT_STEPS)]
    assert Summary.of(early + late).step_seconds == 1.0
    assert Summary.of([step(0, seconds=0)]).step_seconds is None


def test_the_route_of_a_region_follows_the_training_phases():
    later = step(1)
    later["regions"][0] |= {"route": "waterfill:4"}
    fallen = step(2)
    fallen["regions"][0] |= {"route": "fp32", "reason": "norm_spike"}
    region = Summary.of([ATTACH, step(0), later, fallen]).regions["body"]
    assert (region.route, region.route_now, region.low_bit_steps) == ("waterfill:4", "fp32", 2)


def test_the_text_shows_the_last_fallbacks():
    many = [FALLBACK | {"step": number} for number in range(3 * SHOWN_FALLBACKS)]
    summary = Summary.of([ATTACH, step(0), *many])
    lines = str(summary).splitlines()
    assert f"the last {SHOWN_FALLBACKS} of {len(many)} fallbacks" in lines
    assert lines[-1].split() == [str(len(many) - 1), "body", "non_finite"]
    assert len(summary.to_dict()["fallbacks"]) == len(many)


def test_shadow_mode_reports_the_predicted_gain():
    summary = Summary.of(records(steps=100, mode="shadow"))
    result = summary.to_dict()
    assert result["bytes_ratio"] == 1
    assert 0 < result["shadow_bytes"] < result["bytes"]
    assert result["shadow_exposed_seconds"] > 0
    assert summary.regions["mlp"].route_now == "fp32"
    assert 0 < summary.regions["mlp"].low_bit_steps < 100


SHADOW = """\
neuron_fabric 0.1.0: 2 ranks, mode shadow, admit useful, profile default
4 steps to step 3
loss 1.25 at step 3 on this rank, 1.5 at step 3 as the mean over ranks
shadow mode: all gradients were sent at full precision, 65.8 kB
low bits would have sent 10.5 kB, ratio 0.160
exposed time at low bits would have been 20 ms per step, 80 ms less than the 100 ms predicted at \
full precision (predicted, not measured)
step 250 ms, exposed 125 ms, predicted 100 ms (medians of 4 steps)

region  profile's route  sent as  reason    low bit (predicted)"""


def shadow_step(number, **changes):
    record = step(number, predicted_exposed_seconds=0.1, shadow_bytes=2624,
                  shadow_exposed_seconds=0.02) | changes
    for region in record["regions"]:
        region |= {"shadow_route": region["route"], "route": "fp32", "bytes": region["dense_bytes"]}
        region["name"] = region["name"] if region["name"] == "body" else "head"
    return record


def shadow_run(**changes):
    return [PLAIN[0] | {"mode": "shadow"}, *[shadow_step(number, **changes) for number in range(4)]]


def test_shadow_mode_reports_that_nothing_was_sent_at_low_bits():
    text = str(Summary.of(shadow_run()))
    assert text.startswith(SHADOW)
    body = next(line for line in text.splitlines() if line.startswith("body"))
    assert body.split()[1:5] == ["waterfill:5", "fp32", "admitted", "100"]
    assert "ratio" not in text.split("region", 1)[1]


def test_shadow_mode_reports_if_there_is_nothing_to_gain():
    text = str(Summary.of(shadow_run(shadow_exposed_seconds=0.11)))
    assert ("exposed time at low bits would have been 110 ms per step, 10 ms more than the 100 ms predicted "
            "at full precision (predicted, not measured)") in text
    text = str(Summary.of(shadow_run(shadow_exposed_seconds=0.1)))
    assert ("exposed time at low bits would have been 100 ms per step, the same as predicted at full "
            "precision (predicted, not measured)") in text


def test_a_summary_does_not_change_after_it_was_taken():
    reader = SummaryReader()
    reader.write(ATTACH)
    reader.write(step(0))
    taken = reader.summary()
    reader.write(step(1))
    reader.write(NOTICE)
    assert (taken.steps, taken.warnings) == (1, 0)
    assert (reader.summary().steps, reader.summary().warnings) == (2, 1)
