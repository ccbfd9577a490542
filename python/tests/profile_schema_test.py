"""docs/profile.schema.json allows what the core prints, and little else."""

import copy
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parents[2]


def load(path):
    return json.loads((ROOT / path).read_text())


SCHEMA = load("docs/profile.schema.json")
FULL = load("tests/runtime/printed_full.json")  # what tests/runtime/profile_test.cc sees printed
LEAST = load("tests/runtime/printed_least.json")
EXAMPLE = load("examples/profiles/resnet18_cifar100.json")


def is_valid(profile):
    return Draft202012Validator(SCHEMA).is_valid(profile)


def changed(*path_and_value):
    """FULL with another value at a path."""
    *path, last, value = path_and_value
    profile = copy.deepcopy(FULL)
    place = profile
    for key in path:
        place = place[key]
    place[last] = value
    return profile


def test_it_is_a_schema():
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("profile", [FULL, LEAST, EXAMPLE], ids=["full", "least", "example"])
def test_it_allows_what_the_core_prints(profile):
    Draft202012Validator(SCHEMA).validate(profile)


def test_only_what_must_be_there_must_be_there():
    for key in FULL:
        profile = {name: value for name, value in FULL.items() if name != key}
        assert is_valid(profile) == (key not in SCHEMA["required"]), key


def test_it_names_every_key_that_the_core_prints_and_no_other():
    assert set(SCHEMA["properties"]) == set(FULL)
    for part in ("health", "reducer"):
        assert set(SCHEMA["$defs"][part]["properties"]) == set(FULL[part])
    assert set(SCHEMA["$defs"]["region"]["properties"]) == set().union(*FULL["regions"])
    assert set(SCHEMA["$defs"]["phase"]["properties"]) == set(FULL["phases"][0])


def test_its_defaults_are_those_of_the_core():
    for part in ("health", "reducer"):
        defaults = {key: value["default"]
                    for key, value in SCHEMA["$defs"][part]["properties"].items()}
        assert defaults == LEAST[part]
    for key in ("smallest_parameter", "provenance"):
        assert SCHEMA["properties"][key]["default"] == LEAST[key]


@pytest.mark.parametrize("profile", [
    changed("version", 2),
    changed("format", "other"),
    changed("name", ""),
    changed("novelty", 1),
    changed("regions", []),
    changed("regions", 0, "name", "two words"),
    changed("regions", 0, "names", "fc.*"),
    changed("regions", 0, "names", [""]),
    changed("regions", 0, "error_budget", 0),
    changed("regions", 0, "pattern", "fc.*"),
    changed("phases", []),
    changed("phases", 0, "from_step", -1),
    changed("phases", 0, "routes", {}),
    changed("phases", 0, "routes", "head", "water fill"),
    changed("health", "norm_spike", 1),
    changed("health", "norm_spik", 2),
    changed("health", "cool_down_steps", 0),
    changed("health", "warm_up_steps", 0.5),
    changed("reducer", "most_workers", 65537),
    changed("smallest_parameter", None),
    changed("provenance", "me"),
])
def test_it_refuses_the_rest(profile):
    assert not is_valid(profile)
