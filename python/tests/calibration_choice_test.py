"""The routes that a calibration chooses, given synthetic evidence."""

import dataclasses
import math

import pytest
from neuron_fabric.calibration.choice import Choice, Question, choose, next_question
from neuron_fabric.calibration.evidence import (
    CHECKPOINT, FIRST_STEP, Assignment, Branches, Evidence, EvidenceError, Measurement,
    RegionFacts, RegionHealth)
from neuron_fabric.calibration.harm import deviation_of_pairs, harm_of
from neuron_fabric.calibration.settings import CalibrationSettings, Target

BITS = {"fp32": 32, "g_binary": 1, "g_ternary": 1.6, "waterfill:4": 4}
SETTINGS = CalibrationSettings(
    target=Target(0.02), candidates=("waterfill:4", "g_ternary", "g_binary"), repeats=2)


def region(name: str, values: int, small_values: int = 0) -> RegionFacts:
    return RegionFacts(name=name, parameters=1, values=values, small_values=small_values,
                       bytes_up={route: int(values * bits / 8) for route, bits in BITS.items()})


# A ResNet-18 with 100 classes: the head has 0.5 % of the values, the norms are too small.
RESNET = (region("norm", 0, 9_600), region("head", 51_200), region("backbone", 11_159_232))


def evidence_of(regions: tuple[RegionFacts, ...]) -> Evidence:
    return Evidence(ranks=4, regions=regions, candidates=SETTINGS.candidates)


class SimulatedTraining:
    """Answers questions. Harms add up over regions, and every pair has some noise."""

    def __init__(self, harms: dict[tuple[str, str], float], noise: float = 0.0,
                 first_step: dict[str, float] | None = None) -> None:
        self.harms = harms
        self.noise = noise
        self.first_step = first_step or {}  # additional harm from the first step on, by route
        self.asked: list[Question] = []

    def answer(self, question: Question) -> Branches:
        harm = sum(self.harms.get(pair, 0.0) for pair in question.assignment.routes)
        if question.start == FIRST_STEP:
            harm += sum(self.first_step.get(route, 0.0) for _, route in question.assignment.routes)
        dense = [2.0 + 0.1 * order for order in range(question.repeats)]
        signs = [1 if (order + len(question.assignment.routes)) % 2 else -1
                 for order in range(question.repeats)]
        noise = self.noise if question.assignment.routes else 0.0
        losses = tuple(None if math.isinf(harm) else base + harm + noise * sign
                       for base, sign in zip(dense, signs, strict=True))
        return Branches(question.start, question.assignment, losses)

    def calibrate(self, regions: tuple[RegionFacts, ...] = RESNET,
                  settings: CalibrationSettings = SETTINGS,
                  measurements: tuple[Measurement, ...] = ()) -> Choice:
        evidence = dataclasses.replace(evidence_of(regions), measurements=measurements)
        while (question := next_question(evidence, settings)) is not None:
            assert question not in self.asked, "a question was asked twice"
            self.asked.append(question)
            assert len(self.asked) < 100
            evidence = evidence.with_branches(self.answer(question))
        return choose(evidence, settings)


def test_a_sensitive_head_stays_dense_and_the_backbone_gets_the_lowest_bits_within_the_target():
    training = SimulatedTraining({("head", "g_binary"): 0.1, ("head", "g_ternary"): 0.05,
                                  ("backbone", "g_binary"): 0.04, ("backbone", "g_ternary"): 0.004})
    choice = training.calibrate()
    assert dict(choice.assignment.routes) == {"backbone": "g_ternary"}
    assert choice.meets_target
    assert evidence_of(RESNET).bytes_up_ratio(choice.assignment) == pytest.approx(0.0553, abs=2e-4)


def test_the_sensitive_region_is_found_by_its_harm_not_by_its_name():
    regions = (region("head", 11_159_232), region("backbone", 51_200))
    training = SimulatedTraining({("backbone", "g_binary"): 0.1, ("backbone", "g_ternary"): 0.05,
                                  ("head", "g_binary"): 0.04, ("head", "g_ternary"): 0.004})
    assert dict(training.calibrate(regions).assignment.routes) == {"head": "g_ternary"}


def test_harmless_low_bits_are_used_in_every_region():
    assert dict(SimulatedTraining({}).calibrate().assignment.routes) == {
        "backbone": "g_binary", "head": "g_binary"}


def test_a_small_region_is_low_bit_only_if_it_does_no_harm():
    # Together they are within the target, but the head causes most of the harm.
    training = SimulatedTraining({("head", "g_binary"): 0.01, ("backbone", "g_binary"): 0.004})
    assert dict(training.calibrate().assignment.routes) == {"backbone": "g_binary"}


def test_a_large_sensitive_region_gets_a_more_accurate_route():
    regions = (region("embedding", 10_000_000), region("backbone", 10_000_000))
    training = SimulatedTraining({("embedding", "g_binary"): 0.5, ("embedding", "g_ternary"): 0.1})
    assert dict(training.calibrate(regions).assignment.routes) == {
        "backbone": "g_binary", "embedding": "waterfill:4"}


def test_a_branch_that_diverges_is_never_chosen():
    training = SimulatedTraining({("backbone", "g_binary"): math.inf, ("backbone", "g_ternary"): math.inf})
    assert dict(training.calibrate().assignment.routes)["backbone"] == "waterfill:4"


def test_a_route_with_non_finite_sums_is_neither_chosen_nor_tried():
    training = SimulatedTraining({})
    choice = training.calibrate(measurements=(
        Measurement(9, "backbone", "g_binary", None, None, None),
        Measurement(9, "head", "g_binary", 0.5, 0.75, 0.9)))
    assert dict(choice.assignment.routes)["backbone"] == "g_ternary"
    assert "g_binary" not in [question.assignment.route("backbone") for question in training.asked]


def test_an_unreachable_target_leaves_every_region_dense():
    harms = {(name, route): 0.5 for name in ("head", "backbone") for route in BITS}
    choice = SimulatedTraining(harms).calibrate()
    assert choice.assignment == Assignment()
    assert not choice.meets_target


def test_assignments_above_the_byte_limit_are_not_tried():
    settings = CalibrationSettings(
        target=Target(0.02), candidates=SETTINGS.candidates, repeats=2, most_bytes=0.06)
    training = SimulatedTraining({("backbone", "g_binary"): 0.5, ("backbone", "g_ternary"): 0.5})
    assert not training.calibrate(settings=settings).meets_target
    everywhere = Assignment.of({"head": "waterfill:4", "backbone": "waterfill:4"})
    assert everywhere not in [question.assignment for question in training.asked]


def test_inconclusive_branches_are_repeated():
    training = SimulatedTraining({("backbone", "g_binary"): 0.019}, noise=0.01)
    training.calibrate()
    assert max(question.repeats for question in training.asked) > SETTINGS.repeats


def test_noise_above_the_target_rules_out_low_bits():
    assert not SimulatedTraining({}, noise=0.2).calibrate().meets_target


def test_low_bits_from_the_first_step_are_judged_separately():
    everywhere = Assignment.of({"backbone": "g_binary", "head": "g_binary"})
    assert SimulatedTraining({}).calibrate().at_first == everywhere
    assert SimulatedTraining({}, first_step={"g_binary": 0.5}).calibrate().at_first == Assignment.of(
        {"backbone": "g_ternary", "head": "g_ternary"})
    all_bad = dict.fromkeys(SETTINGS.candidates, 0.5)
    choice = SimulatedTraining({}, first_step=all_bad).calibrate()
    assert choice.at_first is None
    assert choice.assignment == everywhere


def test_a_target_can_be_a_percentage_of_the_loss():
    harms = {("backbone", "g_binary"): 0.03, ("head", "g_binary"): 0.5}
    for text, expected in (("1%", "g_ternary"), ("2%", "g_binary")):  # of a loss of about 2.05
        settings = CalibrationSettings(
            target=Target.parse(text), candidates=SETTINGS.candidates, repeats=2)
        assert SimulatedTraining(harms).calibrate(settings=settings).assignment.route("backbone") == expected


@pytest.mark.parametrize("text", ["", "much", "-1", "0", "nan", "inf", "%"])
def test_invalid_targets_are_rejected(text):
    with pytest.raises(ValueError, match="a target must be an increase of the loss"):
        Target.parse(text)


def test_harm_is_the_mean_of_pairs_and_its_error_is_pooled():
    low, other = Assignment.of({"head": "g_binary"}), Assignment.of({"head": "g_ternary"})
    evidence = evidence_of(RESNET)
    for assignment, losses in ((Assignment(), (1.0, 2.0)), (low, (1.1, 2.3)), (other, (1.0, 2.1))):
        evidence = evidence.with_branches(Branches(CHECKPOINT, assignment, losses))
    # Differences 0.1, 0.3 and 0.0, 0.1: squares 0.02 + 0.005, with two degrees of freedom.
    assert deviation_of_pairs(evidence) == pytest.approx(math.sqrt(0.0125))
    harm = harm_of(evidence, low)
    assert harm.mean == pytest.approx(0.2)
    assert harm.standard_error == pytest.approx(math.sqrt(0.0125 / 2))


def test_evidence_survives_a_round_trip():
    evidence = Evidence(
        ranks=4, regions=RESNET, candidates=SETTINGS.candidates, dense_losses=(2.5, 2.25),
        measurements=(Measurement(9, "head", "g_binary", 0.5, 0.75, 0.9),),
        branches=(Branches(CHECKPOINT, Assignment(), (1.0, 1.5)),
                  Branches(FIRST_STEP, Assignment.of({"head": "g_binary"}), (1.0, None),
                           {"head": RegionHealth(0.5, 1.5)})))
    assert Evidence.from_dict(evidence.to_dict()) == evidence


def test_invalid_evidence_is_rejected():
    good = evidence_of(RESNET).to_dict()
    for broken in ({}, good | {"regions": [{"name": "head"}]}, good | {"branches": [1]},
                   good | {"dense_losses": ["low"]}):
        with pytest.raises(EvidenceError):
            Evidence.from_dict(broken)


@pytest.mark.parametrize(("options", "words"), [
    ({"candidates": ("g_binar",)}, "did you mean 'g_binary'"),
    ({"candidates": ()}, "no candidate"),
    ({"candidates": ("g_binary", "g_binary")}, "given twice"),
    ({"candidates": ("fp32",)}, "omit it"),
    ({"most_bytes": 2.0}, "most_bytes"),
    ({"repeats": 1}, "repeats"),
    ({"branch_steps": 0}, "branch_steps")])
def test_invalid_settings_are_rejected(options, words):
    with pytest.raises(ValueError, match=words):
        CalibrationSettings(**options)
