"""The steps of a run of any length, in a bounded number of columns."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields

from ..telemetry.records import RegionStep, Step

MAX_COLUMNS = 800


@dataclass(slots=True)
class Spread:
    """Minimum, maximum and mean of values."""

    minimum: float = float("inf")
    maximum: float = float("-inf")
    total: float = 0.0
    count: int = 0

    def add(self, value: float | None) -> None:
        if value is None:
            return
        self.minimum = value if value < self.minimum else self.minimum
        self.maximum = value if value > self.maximum else self.maximum
        self.total += value
        self.count += 1

    def merge(self, other: "Spread") -> None:
        self.minimum = min(self.minimum, other.minimum)
        self.maximum = max(self.maximum, other.maximum)
        self.total += other.total
        self.count += other.count

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None


def _spreads(cell: object) -> Iterator[tuple[str, Spread]]:
    """The fields of a cell that are spreads. Each has the name of a field of the records."""
    for entry in fields(cell):
        if isinstance(spread := getattr(cell, entry.name), Spread):
            yield entry.name, spread


@dataclass(slots=True)
class RegionCell:
    """Consecutive steps of one region."""

    norm: Spread = field(default_factory=Spread)
    error: Spread = field(default_factory=Spread)
    states: Counter[tuple[str, str]] = field(default_factory=Counter)  # (reason, route): steps

    def add(self, region: RegionStep) -> None:
        for name, spread in _spreads(self):
            spread.add(getattr(region, name))
        self.states[region.reason, region.chosen_route] += 1

    def merge(self, other: "RegionCell") -> None:
        for name, spread in _spreads(self):
            spread.merge(getattr(other, name))
        self.states.update(other.states)


@dataclass(slots=True)
class StepCell:
    """Consecutive steps of a run. Bytes are sums, not means."""

    steps: int = 0
    seconds: Spread = field(default_factory=Spread)
    exposed_seconds: Spread = field(default_factory=Spread)
    predicted_exposed_seconds: Spread = field(default_factory=Spread)
    shadow_exposed_seconds: Spread = field(default_factory=Spread)
    loss: Spread = field(default_factory=Spread)  # means over ranks
    rank_loss: Spread = field(default_factory=Spread)
    bytes: Counter[str] = field(default_factory=Counter)  # by route
    dense_bytes: int = 0
    shadow_bytes: float = 0
    regions: dict[str, RegionCell] = field(default_factory=dict)

    def add(self, step: Step) -> None:
        self.steps += 1
        for name, spread in _spreads(self):
            spread.add(getattr(step, name))
        self.shadow_bytes += step.shadow_bytes or 0
        for region in step.regions:
            self.bytes[region.route] += region.bytes
            self.dense_bytes += region.dense_bytes
            self.regions.setdefault(region.name, RegionCell()).add(region)

    def merge(self, other: "StepCell") -> None:
        self.steps += other.steps
        for name, spread in _spreads(self):
            spread.merge(getattr(other, name))
        self.bytes.update(other.bytes)
        self.dense_bytes += other.dense_bytes
        self.shadow_bytes += other.shadow_bytes
        for name, region in other.regions.items():
            self.regions.setdefault(name, RegionCell()).merge(region)


@dataclass(frozen=True, slots=True)
class Column:
    first: int  # steps, both included
    last: int
    cell: StepCell


class Columns:
    """Cells of `width` steps each, at most `most` of them.

    Columns start one step wide. A step after the last column doubles the width and merges neighbours,
    so memory is bounded for a run of any length.
    """

    def __init__(self, most: int = MAX_COLUMNS):
        self._most = most
        self._cells: list[StepCell | None] = []
        self._origin = 0
        self.width = 1

    def at(self, step: int) -> StepCell:
        """The cell of a step, which may lie before the first one only after cut()."""
        if not self._cells:
            self._origin, self.width = step, 1
        while (place := (step - self._origin) // self.width) >= self._most:
            self._double()
        self._cells += [None] * (place + 1 - len(self._cells))
        cell = self._cells[place]
        if cell is None:
            cell = self._cells[place] = StepCell()
        return cell

    def cut(self, step: int) -> None:
        """Drops everything from `step` on, including the whole column of that step: a column does not
        keep its steps apart."""
        keep = (step - self._origin) // self.width
        del self._cells[max(keep, 0):]

    def __iter__(self) -> Iterator[Column]:
        for place, cell in enumerate(self._cells):
            if cell is not None:
                first = self._origin + place * self.width
                yield Column(first, first + self.width - 1, cell)

    def __len__(self) -> int:
        return len(self._cells)

    def _double(self) -> None:
        self.width *= 2
        merged = self._cells[::2]
        for place, other in enumerate(self._cells[1::2]):
            cell = merged[place]
            if cell is None:
                merged[place] = other
            elif other is not None:
                cell.merge(other)
        self._cells = merged


def fewer(columns: Iterable[Column], most: int) -> list[Column]:
    """The same steps in at most `most` columns."""
    columns = list(columns)
    size = -(-len(columns) // most)
    result = []
    for place in range(0, len(columns), size or 1):
        part = columns[place:place + size]
        cell = StepCell()
        for column in part:
            cell.merge(column.cell)
        result.append(Column(part[0].first, part[-1].last, cell))
    return result
