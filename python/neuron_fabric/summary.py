"""Summary: the totals of a run so far, added up from its records. fabric.summary() returns it."""

import copy
import statistics
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .summary_text import parameters_text, text
from .support import units
from .telemetry.reasons import CHOSEN_REASONS
from .telemetry.records import (DENSE_ROUTE, Attach, Decision, Event, Notice, Step, Topology,
                                parse)
from .telemetry.stream import Reader, Record

RECENT_STEPS = 1000  # the number of steps that medians cover


@dataclass
class RegionSummary:
    """One region. `route` is the route of the profile, `route_now` the route in use. In shadow mode
    `low_bit_steps` counts the steps that would have used low bits."""

    name: str
    route: str = ""
    route_now: str = ""
    reason: str = ""
    parameters: int = 0
    values: int = 0
    steps: int = 0
    low_bit_steps: int = 0
    bytes: int = 0
    dense_bytes: int = 0
    up_bytes: float | None = 0
    norm: float | None = None
    error: float | None = None
    error_budget: float | None = None
    non_finite: int = 0
    fallbacks: int = 0

    @property
    def bytes_ratio(self) -> float | None:
        return units.ratio(self.bytes, self.dense_bytes)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"bytes_ratio": self.bytes_ratio}


@dataclass
class Summary:
    """str() is a table for people, to_dict() for programs. Bytes are those of this rank.

    mode: the mode of the job, "on" or "shadow"; "off" if NF_MODE is off and nothing is recorded.
    """

    attach: Attach | None = None
    attaches: int = 0
    step: int | None = None
    epoch: int = 0
    steps: int = 0
    skipped_steps: int = 0
    loss: float | None = None  # mean over ranks, at loss_step: not every step has one
    loss_step: int | None = None
    rank_loss: float | None = None  # this rank only
    rank_loss_step: int | None = None
    bytes: int = 0
    dense_bytes: int = 0
    up_bytes: float | None = 0  # the contributions in `bytes`; None if a record does not have them
    shadow_bytes: float | None = None
    regions: dict[str, RegionSummary] = field(default_factory=dict)
    fallbacks: list[Decision] = field(default_factory=list)
    warnings: int = 0
    last_warning: str = ""
    notes: list[str] = field(default_factory=list)
    mode: str | None = None
    _seconds: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))
    _exposed: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))
    _predicted: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))
    _shadow: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_STEPS))

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Summary":
        summary = cls()
        for record in records:
            summary.add(parse(record))
        return summary

    def add(self, event: Event | None) -> None:
        match event:
            case Attach():
                self._add_attach(event)
            case Topology() if self.attach is not None:
                self.attach = replace(self.attach, topology=event.topology)
            case Step():
                self._add_step(event)
            case Decision() if event.is_fallback:
                self.fallbacks.append(event)
                self._region(event.region).fallbacks += 1
            case Notice(level="warning" | "error"):
                self.warnings += 1
                self.last_warning = event.text
            case Notice(level="info"):
                self.notes.append(event.text)

    @property
    def bytes_ratio(self) -> float | None:
        return units.ratio(self.bytes, self.dense_bytes)

    @property
    def bytes_up_ratio(self) -> float | None:
        """Contributions relative to FP32. An all-reduce sends as many bytes of sums; a reduce-scatter none."""
        scatters = self.attach is not None and self.attach.collective == "reduce_scatter"
        dense_up_bytes = self.dense_bytes if scatters else self.dense_bytes / 2
        return None if self.up_bytes is None else units.ratio(self.up_bytes, dense_up_bytes)

    @property
    def timed_steps(self) -> int:
        """The number of steps that the medians below cover."""
        return len(self._seconds)

    @property
    def step_seconds(self) -> float | None:
        return _median(self._seconds)

    @property
    def exposed_seconds(self) -> float | None:
        return _median(self._exposed)

    @property
    def predicted_exposed_seconds(self) -> float | None:
        return _median(self._predicted)

    @property
    def shadow_exposed_seconds(self) -> float | None:
        return _median(self._shadow)

    def to_dict(self) -> dict[str, Any]:
        attach = self.attach
        result: dict[str, Any] = {key: getattr(attach, key, None) for key in
                                  ("version", "ranks", "backend", "source", "mode", "admit", "topology",
                                   "topology_ms", "profile")}
        result["mode"] = self.mode
        result |= {key: getattr(self, key) for key in
                   ("step", "epoch", "steps", "skipped_steps", "loss", "loss_step", "rank_loss",
                    "rank_loss_step", "bytes", "dense_bytes", "up_bytes", "bytes_ratio",
                    "bytes_up_ratio", "step_seconds", "exposed_seconds",
                    "predicted_exposed_seconds")}
        if self.shadow_bytes is not None:
            result |= {"shadow_bytes": self.shadow_bytes,
                       "shadow_exposed_seconds": self.shadow_exposed_seconds}
        result["regions"] = [region.to_dict() for region in self.regions.values()]
        result["fallbacks"] = [{"step": fallback.step, "epoch": fallback.epoch,
                                "region": fallback.region, "reason": fallback.after}
                               for fallback in self.fallbacks]
        result["warnings"] = self.warnings
        result["notes"] = self.notes
        return result

    def __str__(self) -> str:
        return text(self)

    def describe(self) -> str:
        """One line per parameter: region, route of the profile, route in use with the reason, size."""
        return parameters_text(self)

    def _add_attach(self, attach: Attach) -> None:
        self.attach, self.mode = attach, attach.mode
        self.attaches += 1
        for info in attach.regions:
            region = self._region(info.name)
            region.route, region.error_budget = info.route, info.error_budget
            region.parameters, region.values = info.parameters, info.values

    def _add_step(self, step: Step) -> None:
        if step.epoch != self.epoch:  # the routes have changed, and with them the times
            for times in (self._seconds, self._exposed, self._predicted, self._shadow):
                times.clear()
        self.step, self.epoch = step.step, step.epoch
        self.steps += 1
        self.skipped_steps += step.should_step is False
        if step.loss is not None:
            self.loss, self.loss_step = step.loss, step.step
        if step.rank_loss is not None:
            self.rank_loss, self.rank_loss_step = step.rank_loss, step.step
        for value, into in ((step.seconds, self._seconds), (step.exposed_seconds, self._exposed),
                            (step.predicted_exposed_seconds, self._predicted),
                            (step.shadow_exposed_seconds, self._shadow)):
            if value is not None:
                into.append(value)
        if step.shadow_bytes is not None:
            self.shadow_bytes = (self.shadow_bytes or 0) + step.shadow_bytes
        for now in step.regions:
            region = self._region(now.name)
            if now.reason in CHOSEN_REASONS:  # training phases change it
                region.route = now.chosen_route
            region.route_now, region.reason = now.route, now.reason
            region.steps += 1
            region.low_bit_steps += now.chosen_route != DENSE_ROUTE
            region.non_finite += now.non_finite or 0
            region.norm = now.norm if now.norm is not None else region.norm
            region.error = now.error if now.error is not None else region.error
            for total in (self, region):
                total.bytes += now.bytes
                total.dense_bytes += now.dense_bytes
                is_known = total.up_bytes is not None and now.up_bytes is not None
                total.up_bytes = total.up_bytes + now.up_bytes if is_known else None

    def _region(self, name: str) -> RegionSummary:
        return self.regions.setdefault(name, RegionSummary(name))


class SummaryReader(Reader):
    """Keeps a Summary up to date. summary() may be called from any thread."""

    def __init__(self) -> None:
        self._summary = Summary()
        self._lock = threading.Lock()

    def write(self, record: Record) -> None:
        event = parse(record)
        with self._lock:
            self._summary.add(event)

    def summary(self) -> Summary:
        """A copy, which later records do not change."""
        with self._lock:
            return copy.deepcopy(self._summary)


def _median(values: deque[float]) -> float | None:
    return statistics.median(values) if values else None
