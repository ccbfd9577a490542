"""Profiles: parsed from a path, a dict or a route, and kept as the canonical text of the core."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import torch  # noqa: F401  loads the libraries that the extension links

from neuron_fabric import _C
from neuron_fabric.model import ModelParameters

MAX_PROFILE_BYTES = 1 << 20


@dataclass(frozen=True)
class Profile:
    """A parsed profile (docs/profile_format.md). Equal profiles have equal text."""

    text: str

    @staticmethod
    def parse(text: str, origin: str = "profile") -> "Profile":
        """Raises ValueError, which names the position and the nearest known word."""
        return Profile(_C.parse_profile(text, origin))

    @staticmethod
    def load(path: str | os.PathLike) -> "Profile":
        try:
            with Path(path).open("rb") as file:
                data = file.read(MAX_PROFILE_BYTES + 1)
            if len(data) > MAX_PROFILE_BYTES:
                raise ValueError(f"{path}: larger than {MAX_PROFILE_BYTES >> 20} MiB")
            text = data.decode("utf-8")
        except OSError as error:
            raise ValueError(f"cannot read the profile {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"the profile {path} is not UTF-8 text") from error
        return Profile.parse(text, str(path))

    def to_dict(self) -> dict:
        return json.loads(self.text)


def resolve(profile: object, route: str | None, parameters: ModelParameters) -> Profile:
    """The profile for attach(): from a path, a dict, a Profile, one route for all parameters, or the
    default."""
    if route is not None:
        if profile is not None:
            raise ValueError("give a profile or a route, not both: route= applies to all parameters")
        return Profile.parse(_C.static_profile(route), f"route={route!r}")
    if profile is None:
        return Profile(
            _C.default_profile(parameters.names, parameters.module_types, parameters.tensors)
        )
    if isinstance(profile, Profile):
        return profile
    if isinstance(profile, dict):
        return Profile.parse(json.dumps(profile))
    if isinstance(profile, (str, os.PathLike)):
        return Profile.load(profile)
    raise TypeError(f"profile must be a path, a dict or an nf.Profile, not {profile!r}")
