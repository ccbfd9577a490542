"""The decisions that depend on measured times, in a file that another run can replay (docs/runtime.md)."""

import json
import logging
import os
from collections.abc import Set
from dataclasses import asdict, dataclass
from pathlib import Path

import torch.distributed as dist

from neuron_fabric.profile import Profile
from neuron_fabric.ranks.rendezvous import broadcast_from_rank_0, run_on_all_ranks
from neuron_fabric.settings import TOPOLOGIES
from neuron_fabric.support.files import atomic_file, write_atomic
from neuron_fabric.telemetry import Reader, Record

logger = logging.getLogger(__name__)

FORMAT = "neuron_fabric.decisions"
VERSION = 1
MAX_FILE_BYTES = 16 << 20
_KEYS = {"format", "version", "binding", "regions", "changes"}
_NEW_KEYS = {"topology"}  # older files lack them
_CHANGE_KEYS = {"from_step", "useful", "over_capacity"}

Change = tuple[int, list[str], bool]  # from_step, useful, over_capacity


@dataclass(frozen=True)
class Decisions:
    """Of one run. `topology` is None if the file does not have it."""

    changes: list[Change]
    topology: str | None = None


@dataclass(frozen=True)
class Owner:
    """The profile and model of decisions: the profile's regions, and the hash of its binding."""

    hash: str
    regions: list[str]

    @staticmethod
    def of(profile: Profile, binding: int) -> "Owner":
        return Owner(f"{binding:016x}", [region["name"] for region in profile.to_dict()["regions"]])


class Recorder(Reader):
    """Writes the file of a run: the whole file, after the first step and after each change."""

    def __init__(self, path: str | os.PathLike, owner: Owner) -> None:
        """Raises ValueError if the file cannot be written."""
        self._path = Path(path).absolute()
        self._head = {"format": FORMAT, "version": VERSION, "binding": owner.hash,
                      "regions": owner.regions}
        self._topology: str | None = None
        self._changes: list[str] = []
        self._has_begun = False
        self._is_written = False
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(self._path) as part:
                part.touch()
            self._path.unlink()  # a job without a step must not leave a file
        except OSError as error:
            raise ValueError(f"cannot write the decisions {path}: {error.strerror}") from error

    def write(self, record: Record) -> None:
        if record["event"] == "step":
            self._has_begun = True
        if record["event"] in ("attach", "topology"):
            self._topology = record["topology"]
        if record["event"] == "measured":
            self._changes.append(json.dumps({"from_step": record["step"], "useful": record["useful"],
                                             "over_capacity": record["over_capacity"]}))
            self._is_written = False

    def flush(self) -> None:
        if self._is_written or not self._has_begun:
            return
        changes = ",".join(f"\n  {change}" for change in self._changes)
        head = self._head | {"topology": self._topology}
        text = f'{json.dumps(head)[:-1]}, "changes": [{changes}]}}\n'
        if len(text) > MAX_FILE_BYTES:
            raise ValueError(f"the decisions {self._path} exceed {MAX_FILE_BYTES >> 20} MiB: the file "
                             "lacks the latest decisions and does not reproduce this run")
        write_atomic(self._path, text)
        self._is_written = True


def load(path: Path, owner: Owner) -> Decisions:
    """Raises ValueError, with the name of the file, if it cannot be read, is malformed or belongs to
    another profile or model."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ValueError(f"it is larger than {MAX_FILE_BYTES >> 20} MiB")
        return _parse(data, owner)
    except OSError as error:
        raise ValueError(f"cannot read the decisions {path}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"the decisions {path} cannot be replayed: {error}; use another file, or "
                         "remove this one to record again") from error


def _parse(data: bytes, owner: Owner) -> Decisions:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f'its "format" is not "{FORMAT}"')
    if content.get("version") != VERSION:
        raise ValueError(f"version {_short(content.get('version'))}, and this build reads version "
                         f"{VERSION}")
    _check_keys(content, _KEYS, "the file", _NEW_KEYS)
    if content["binding"] != owner.hash or content["regions"] != owner.regions:
        raise ValueError("it was recorded with another profile or model")
    if not isinstance(content["changes"], list):
        raise ValueError('"changes" is not a list')
    topology = content.get("topology")
    if topology is not None and topology not in TOPOLOGIES[1:]:
        raise ValueError(f'"topology" is {_short(topology)}, not one of {", ".join(TOPOLOGIES[1:])}')
    known = frozenset(owner.regions)
    changes: list[Change] = []
    for index, fields in enumerate(content["changes"]):
        where = f"changes[{index}]"
        change = _change(fields, known, where)
        if changes and change[0] <= changes[-1][0]:
            raise ValueError(f"{where}: step {change[0]} comes after step {changes[-1][0]}")
        changes.append(change)
    return Decisions(changes, topology)


def _change(fields: object, known: frozenset[str], where: str) -> Change:
    if not isinstance(fields, dict):
        raise ValueError(f"{where} is not an object")
    _check_keys(fields, _CHANGE_KEYS, where)
    step, useful, over_capacity = fields["from_step"], fields["useful"], fields["over_capacity"]
    if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < 1 << 53:
        raise ValueError(f"{where}.from_step is {_short(step)}, not a step")
    if not isinstance(useful, list):
        raise ValueError(f"{where}.useful is not a list of regions")
    for name in useful:
        if not isinstance(name, str) or name not in known:
            raise ValueError(f"{where}.useful has {_short(name)}, which is not a region of the profile")
    if not isinstance(over_capacity, bool):
        raise ValueError(f"{where}.over_capacity is {_short(over_capacity)}, not true or false")
    return step, useful, over_capacity


def _check_keys(fields: dict, known: set[str], where: str, optional: Set[str] = frozenset()) -> None:
    if missing := known - fields.keys():
        raise ValueError(f'{where} has no "{min(missing)}"')
    if unknown := fields.keys() - known - optional:
        raise ValueError(f"{where} has an unknown key {_short(min(unknown))}")


def _short(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # a number of too many digits
        return "a huge number"
    return text if len(text) <= 60 else f"{text[:60]}..."


def recorded_decisions(group: dist.ProcessGroup, path: str | os.PathLike | None, owner: Owner, *,
                       deterministic: bool) -> Decisions | None:
    """The decisions to replay, the same on all ranks; None if measured times decide. All ranks call it
    at the same time. Only rank 0 reads the file; if that fails, all ranks raise."""
    if path is None:
        return Decisions([]) if deterministic else None

    def read() -> Decisions | None:
        file = Path(path).absolute()
        if group.rank() != 0:
            return None
        if file.exists():
            loaded = load(file, owner)
            logger.info("replaying the decisions %s: %d changes", file, len(loaded.changes))
            return loaded
        if deterministic:
            raise ValueError(f"deterministic=True replays the decisions {file}, which does not exist: "
                             "record them in a run without it, or omit decisions=")
        return None

    loaded = run_on_all_ranks(group, read)
    fields = broadcast_from_rank_0(group, None if loaded is None else asdict(loaded))
    return None if fields is None else Decisions(**fields)
