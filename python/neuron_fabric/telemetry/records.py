"""The records of the runtime (docs/telemetry.md): JSON objects parsed into values.

Only the essential keys of a record are required. Numbers that are missing or null become None, so that
files of older and newer versions can be read.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from .reasons import CHOSEN_REASONS, FALLBACK_REASONS, LOW_BIT_REASONS

Fields = dict[str, Any]

DENSE_ROUTE = "fp32"  # the engine's all-reduce


class RecordError(ValueError):
    """A JSON value that is not a record."""


@dataclass(frozen=True, slots=True)
class Link:
    latency_us: float | None
    gbps: float | None
    dense_latency_us: float | None
    dense_gbps: float | None


@dataclass(frozen=True, slots=True)
class Region:
    name: str
    parameters: int
    values: int
    route: str
    error_budget: float | None


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    region: str
    values: int
    route: str


@dataclass(frozen=True, slots=True)
class Attach:
    time: float | None
    rank: int
    ranks: int
    version: str
    torch: str
    backend: str
    source: str  # of the gradients: "ddp", "fsdp2", "hsdp", "replicate" or "reducer"
    collective: str  # "all_reduce" or "reduce_scatter"
    mode: str
    admit: str
    topology: str
    topology_ms: dict[str, float]  # of one bucket, for each topology measured at attach; empty in older records
    seed: int
    profile: str
    model: str  # the name of its class; empty if the record does not have it
    link: Link
    regions: tuple[Region, ...]
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class Topology:
    """That of a loaded checkpoint, which replaces the one of the attach record."""

    topology: str


@dataclass(frozen=True, slots=True)
class RegionStep:
    name: str
    route: str
    reason: str
    norm: float | None
    error: float | None
    non_finite: int | None  # None if the step was not monitored, like Step.should_step
    bytes: int
    dense_bytes: int
    up_bytes: float | None  # contributions in `bytes`, without reduced values; None in older records
    seconds: float | None
    shadow_route: str  # empty outside shadow mode

    @property
    def chosen_route(self) -> str:
        """The route that admission chose. In shadow mode it is not the route in use."""
        if not self.shadow_route:
            return self.route
        return self.shadow_route if self.reason in CHOSEN_REASONS else DENSE_ROUTE


@dataclass(frozen=True, slots=True)
class Step:
    step: int
    time: float | None
    epoch: int
    seconds: float | None
    exposed_seconds: float | None
    predicted_exposed_seconds: float | None
    shadow_exposed_seconds: float | None  # None outside shadow mode, like shadow_bytes
    shadow_bytes: float | None
    loss: float | None  # mean over ranks; None if the step was not monitored
    rank_loss: float | None  # of the rank that wrote the records; None in older records
    should_step: bool | None
    buckets: int
    regions: tuple[RegionStep, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    step: int
    epoch: int
    region: str
    before: str
    after: str
    route: str
    was_low_bit: bool  # before this step, and from it on; in shadow mode, what would have been
    is_low_bit: bool

    @property
    def is_fallback(self) -> bool:
        """Whether a breach made the region lose its low-bit route."""
        return self.was_low_bit and self.after in FALLBACK_REASONS


@dataclass(frozen=True, slots=True)
class Notice:
    time: float | None
    level: str
    text: str


@dataclass(frozen=True, slots=True)
class Detach:
    time: float | None
    step: int


@dataclass(frozen=True, slots=True)
class Bucket:
    values: int
    low_bit_values: int  # of regions whose profile has a low-bit route


@dataclass(frozen=True, slots=True)
class Buckets:
    """The layout of gradients in buckets from `step` on."""

    step: int
    buckets: tuple[Bucket, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """The decisions by measured times from `step` on."""

    step: int
    useful: tuple[str, ...]  # regions whose low bits shorten the step
    over_capacity: bool


Event = Attach | Topology | Step | Buckets | Measured | Decision | Notice | Detach


def _reject(key: str, what: str) -> NoReturn:
    raise RecordError(f'"{key}" is {what}')


def _number(record: Fields, key: str) -> float | None:
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        _reject(key, "not a number")
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def _count(record: Fields, key: str) -> int:
    value = record.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 64:
        _reject(key, "not a whole number")
    return value


def _known_count(record: Fields, key: str) -> int | None:
    return None if record.get(key) is None else _count(record, key)


def _verdict(record: Fields, key: str) -> bool | None:
    value = record.get(key)
    if value is not None and not isinstance(value, bool):
        _reject(key, "neither true nor false")
    return value


def _text(record: Fields, key: str, default: str = "") -> str:
    value = record.get(key, default)
    if not isinstance(value, str):
        _reject(key, "not a string")
    return value


def _objects(record: Fields, key: str) -> list[Fields]:
    value = record.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        _reject(key, "not a list of objects")
    return value


def _needs(record: Fields, *keys: str) -> None:
    for key in keys:
        if key not in record:
            _reject(key, "missing")


def _region(record: Fields) -> Region:
    _needs(record, "name")
    return Region(name=_text(record, "name"), parameters=_count(record, "parameters"),
                  values=_count(record, "values"), route=_text(record, "route", DENSE_ROUTE),
                  error_budget=_number(record, "error_budget"))


def _parameter(record: Fields) -> Parameter:
    _needs(record, "name")
    return Parameter(name=_text(record, "name"), region=_text(record, "region"),
                     values=_count(record, "values"), route=_text(record, "route", DENSE_ROUTE))


def _link(record: Fields) -> Link:
    return Link(latency_us=_number(record, "latency_us"), gbps=_number(record, "gbps"),
                dense_latency_us=_number(record, "dense_latency_us"),
                dense_gbps=_number(record, "dense_gbps"))


def _topology_ms(record: Fields) -> dict[str, float]:
    times = record.get("topology_ms", {})
    if not isinstance(times, dict):
        _reject("topology_ms", "not an object")
    return {name: ms for name in times if (ms := _number(times, name)) is not None}


def _topology(record: Fields) -> Topology:
    _needs(record, "topology")
    return Topology(_text(record, "topology"))


def _attach(record: Fields) -> Attach:
    link = record.get("link", {})
    if not isinstance(link, dict):
        _reject("link", "not an object")
    return Attach(time=_number(record, "time"), rank=_count(record, "rank"),
                  ranks=_count(record, "ranks"), version=_text(record, "version"),
                  torch=_text(record, "torch"), backend=_text(record, "backend"),
                  source=_text(record, "source", "ddp"),
                  collective=_text(record, "collective", "all_reduce"),
                  mode=_text(record, "mode"), admit=_text(record, "admit"),
                  topology=_text(record, "topology"), topology_ms=_topology_ms(record), seed=_count(record, "seed"),
                  profile=_text(record, "profile"), model=_text(record, "model"), link=_link(link),
                  regions=tuple(map(_region, _objects(record, "regions"))),
                  parameters=tuple(map(_parameter, _objects(record, "parameters"))))


def _region_step(record: Fields) -> RegionStep:
    _needs(record, "name")
    return RegionStep(name=_text(record, "name"), route=_text(record, "route", DENSE_ROUTE),
                      reason=_text(record, "reason"), norm=_number(record, "norm"),
                      error=_number(record, "error"),
                      non_finite=_known_count(record, "non_finite"),
                      bytes=_count(record, "bytes"), dense_bytes=_count(record, "dense_bytes"),
                      up_bytes=_number(record, "up_bytes"), seconds=_number(record, "seconds"),
                      shadow_route=_text(record, "shadow_route"))


def _step(record: Fields) -> Step:
    _needs(record, "step")
    return Step(step=_count(record, "step"), time=_number(record, "time"),
                epoch=_count(record, "epoch"),
                seconds=_number(record, "seconds") or None,  # 0 is unknown
                exposed_seconds=_number(record, "exposed_seconds"),
                predicted_exposed_seconds=_number(record, "predicted_exposed_seconds"),
                shadow_exposed_seconds=_number(record, "shadow_exposed_seconds"),
                shadow_bytes=_number(record, "shadow_bytes"), loss=_number(record, "loss"),
                rank_loss=_number(record, "rank_loss"),
                should_step=_verdict(record, "should_step"),
                buckets=_count(record, "buckets"),
                regions=tuple(map(_region_step, _objects(record, "regions"))))


def _bucket(record: Fields) -> Bucket:
    return Bucket(values=_count(record, "values"), low_bit_values=_count(record, "low_bit_values"))


def _buckets(record: Fields) -> Buckets:
    return Buckets(step=_count(record, "step"),
                   buckets=tuple(map(_bucket, _objects(record, "buckets"))))


def _measured(record: Fields) -> Measured:
    useful, over_capacity = record.get("useful"), record.get("over_capacity")
    if not isinstance(useful, list) or not all(isinstance(name, str) for name in useful):
        _reject("useful", "not a list of regions")
    if not isinstance(over_capacity, bool):
        _reject("over_capacity", "neither true nor false")
    return Measured(step=_count(record, "step"), useful=tuple(useful), over_capacity=over_capacity)


def _decision(record: Fields) -> Decision:
    _needs(record, "step", "region", "from", "to")
    before, after = _text(record, "from"), _text(record, "to")
    return Decision(step=_count(record, "step"), epoch=_count(record, "epoch"),
                    region=_text(record, "region"), before=before, after=after,
                    route=_text(record, "route"),
                    was_low_bit=_low_bit(record, "was_low_bit", before),
                    is_low_bit=_low_bit(record, "is_low_bit", after))


def _low_bit(record: Fields, key: str, reason: str) -> bool:
    """Older records have only the reason, and an `admitted` region can be dense."""
    known = _verdict(record, key)
    return reason in LOW_BIT_REASONS if known is None else known


def _notice(record: Fields) -> Notice:
    return Notice(time=_number(record, "time"), level=_text(record, "level", "info"),
                  text=_text(record, "text"))


def _detach(record: Fields) -> Detach:
    return Detach(time=_number(record, "time"), step=_count(record, "step"))


_PARSERS: dict[str, Callable[[Fields], Event]] = {
    "attach": _attach, "topology": _topology, "step": _step, "buckets": _buckets,
    "measured": _measured, "decision": _decision, "notice": _notice, "detach": _detach}
KINDS = frozenset(_PARSERS)


def parse(record: Any) -> Event | None:
    """The event of a record; None if this version does not have its kind.

    Raises RecordError if the value is not a record or a key has the wrong type.
    """
    if not isinstance(record, dict) or not isinstance(record.get("event"), str):
        raise RecordError('it has no "event"')
    parser = _PARSERS.get(record["event"])
    return parser(record) if parser else None
