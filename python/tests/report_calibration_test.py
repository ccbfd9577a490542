"""The report of a calibrated profile."""

import json
import re

import pytest
from neuron_fabric.report.__main__ import main
from neuron_fabric.report.calibration import ProfileError, body, read_profile


def branch(routes: dict[str, str], harm: float | None, **others: object) -> dict:
    return {"start": "checkpoint", "routes": routes, "bytes_up_ratio": 0.05, "harm": harm,
            "standard_error": 0.002, "pairs": 3, "within_target": False, "chosen": False} | others


def route(region: str, name: str, **others: object) -> dict:
    return {"region": region, "route": name, "bytes_up": 50, "dense_bytes": 1000, "error": 0.4,
            "slope": 0.7, "agreement": 0.8, "harm": None, "standard_error": None, "pairs": 0,
            "chosen": False} | others


def profile() -> dict:
    return {
        "format": "neuron_fabric.profile", "version": 1, "name": "<mine>",
        "provenance": {
            "command": "nf calibrate digits", "ranks": 4, "meets_target": True, "most_harm": 0.01,
            "bytes_up_ratio": 0.055, "chosen": {"backbone": "g_ternary"},
            "table": [branch({}, 0.0), branch({"head": "g_ternary"}, 0.05),
                      branch({"backbone": "g_ternary"}, 0.004, within_target=True, chosen=True),
                      branch({"backbone": "g_binary"}, None),
                      branch({"backbone": "g_ternary"}, 0.02, start="first step")],
            "routes": [route("head", "g_ternary", harm=0.05, standard_error=0.002, pairs=3),
                       route("backbone", "g_ternary", chosen=True),
                       route("backbone", "g_binary", error=None, slope=None, agreement=None)]}}


def test_the_page_shows_the_tried_and_the_chosen_routes(tmp_path):
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(profile()))
    assert main([str(path)]) == 0
    page = (tmp_path / "profile.html").read_text()
    assert "&lt;mine&gt;" in page
    assert "<mine>" not in page
    assert "+0.0040 ± 0.0020" in page
    assert "diverged" in page
    assert "first steps: backbone=g_ternary" in page
    assert "<h3>Error of the sum (vnmse)</h3>" in page
    assert "error of the sum</th>" in page
    assert "quantisation error" not in page.lower()  # that is the error of one rank's gradient
    # One dot per finished branch, and one per route with a measured error.
    assert len(re.findall("<circle", page)) == 3 + 2


def test_a_dense_recommendation_is_shown():
    dense = profile()
    dense["provenance"] |= {"meets_target": False, "chosen": {}}
    assert "full precision" in body(dense)


def test_a_profile_without_calibration_is_rejected(tmp_path, capsys):
    path = tmp_path / "profile.json"
    for text, words in (("{", "cannot read"), ("{}", "neither a run's folder nor a profile"),
                        (json.dumps({"format": "neuron_fabric.profile"}), "has no evidence")):
        path.write_text(text)
        with pytest.raises(ProfileError, match=words):
            read_profile(path)
        assert main([str(path)]) == 2
        assert words in capsys.readouterr().err
    broken = profile()
    del broken["provenance"]["table"][1]["harm"]
    with pytest.raises(ProfileError, match="is damaged"):
        body(broken)
