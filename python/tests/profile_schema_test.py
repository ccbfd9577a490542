"""docs/profile.schema.json accepts the profiles that the core prints, and little else."""

import copy
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parents[2]


def load(path):
    return json.loads((ROOT / path).read_text())


SCHEMA = load("docs/profile.schema.json")
FULL = load("tests/runtime/printed_full.json")  # as printed in tests/runtime/profile_test.cc
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


def test_the_schema_is_valid():
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("profile", [FULL, LEAST, EXAMPLE], ids=["full", "least", "example"])
def test_the_schema_accepts_profiles_printed_by_the_core(profile):
    Draft202012Validator(SCHEMA).validate(profile)


def test_only_required_keys_are_required():
    for key in FULL:
        profile = {name: value for name, value in FULL.items() if name != key}
        assert is_valid(profile) == (key not in SCHEMA["required"]), key


def test_the_schema_has_exactly_the_keys_that_the_core_prints():
    assert set(SCHEMA["properties"]) == set(FULL)
    for part in ("health", "reducer"):
        assert set(SCHEMA["$defs"][part]["properties"]) == set(FULL[part])
    assert set(SCHEMA["$defs"]["region"]["properties"]) == set().union(*FULL["regions"])
    assert set(SCHEMA["$defs"]["phase"]["properties"]) == set(FULL["phases"][0])


def test_the_defaults_are_those_of_the_core():
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
def test_the_schema_rejects_invalid_profiles(profile):
    assert not is_valid(profile)
