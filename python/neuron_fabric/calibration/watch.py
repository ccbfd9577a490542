"""The progress of a calibration."""

import sys
import time

from neuron_fabric.calibration.evidence import Evidence


class Watch:
    """Receives the progress of a calibration. This one ignores it."""

    left: float | None = None  # estimated seconds, if known

    def begin(self, what: str, steps: int) -> None:
        """A task of `steps` steps starts."""

    def step(self) -> None:
        """One step is done."""

    def end(self, result: str) -> None:
        """The task is done, with this result."""


class CalibrationConsole(Watch):
    """Prints one line per task; on a terminal it is updated while the task runs."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.on_terminal = sys.stdout.isatty()
        self.what, self.steps, self.done = "", 1, 0
        self.shown = 0.0

    def begin(self, what: str, steps: int) -> None:
        self.what, self.steps, self.done = what, steps, 0
        self._show()

    def step(self) -> None:
        self.done += 1
        if time.monotonic() - self.shown > 0.2:
            self._show()

    def end(self, result: str) -> None:
        now = time.monotonic() - self.started
        line = f"{self.what:<44}  {result:<26}  {now:4.0f} s"
        if self.left is not None:
            line += f", about {self.left:.0f} s left"
        print(f"\r{line:<78}" if self.on_terminal else line, flush=True)

    def _show(self) -> None:
        if self.on_terminal:
            self.shown = time.monotonic()
            print(f"\r{self.what:<44}  step {self.done} of {self.steps}".ljust(78), end="",
                  flush=True)


class TimeLeft:
    """Estimates the time of the remaining trials. Their number is known only as they are answered: the
    estimate assumes that every candidate is tried until one meets the target."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def answered(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def estimate(self, evidence: Evidence) -> float:
        """Call it after at least one answer."""
        usual = 3 + 2 * (len(evidence.low_bit_regions) + 1)
        left = max(1, usual - len(evidence.branches))
        return left * sum(self.seconds) / len(self.seconds)
