"""The monitor's figures in a branch that runs without limits."""

from collections import Counter, defaultdict

from neuron_fabric.calibration.evidence import Assignment, RegionHealth
from neuron_fabric.telemetry.records import DENSE_ROUTE, Step, parse
from neuron_fabric.telemetry.stream import Reader, Record

MIN_NORMS = 10  # a norm is compared only if it has at least this many predecessors
MIN_LOW_BIT = 0.5  # minimum share of low-bit steps; below it, a branch is no evidence


class HealthReader(Reader):
    """The maxima of each region in one branch."""

    def __init__(self) -> None:
        self._errors: dict[str, float] = defaultdict(float)
        self._ratios: dict[str, float] = defaultdict(float)
        self._norms: dict[str, list[float]] = defaultdict(list)
        self._steps: Counter[str] = Counter()  # monitored steps
        self._low_bit_steps: Counter[str] = Counter()

    def write(self, record: Record) -> None:
        event = parse(record)
        if not isinstance(event, Step):
            return
        for region in event.regions:
            self._steps[region.name] += region.non_finite is not None
            self._low_bit_steps[region.name] += region.route != DENSE_ROUTE
            self._errors[region.name] = max(self._errors[region.name], region.error or 0.0)
            if region.norm:
                before = self._norms[region.name]
                if len(before) >= MIN_NORMS:
                    ratio = region.norm / (sum(before) / len(before))
                    self._ratios[region.name] = max(self._ratios[region.name], ratio)
                before.append(region.norm)

    def health(self, assignment: Assignment) -> dict[str, RegionHealth]:
        """The figures of the regions at low bits."""
        return {region: RegionHealth(self._errors[region], self._ratios[region])
                for region, _ in assignment.routes}

    def is_of(self, assignment: Assignment) -> bool:
        """Whether the regions used their routes, and were not dense after steps with NaN or Inf."""
        return all(self._low_bit_steps[region] >= MIN_LOW_BIT * self._steps[region]
                   for region, _ in assignment.routes)
