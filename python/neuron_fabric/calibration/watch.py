"""How far a calibration is, for people."""

import sys
import time

from neuron_fabric.calibration.evidence import Evidence


class Watch:
    """What a calibration tells while it works. This one says nothing."""

    left: float | None = None  # seconds, where they can be guessed

    def begin(self, what: str, steps: int) -> None:
        """A piece of work of so many steps."""

    def step(self) -> None:
        """One of them is done."""

    def end(self, told: str) -> None:
        """The piece is done, and this came of it."""


class CalibrationConsole(Watch):
    """A line a piece of work, written over on a terminal while it lasts."""

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

    def end(self, told: str) -> None:
        now = time.monotonic() - self.started
        line = f"{self.what:<44}  {told:<26}  {now:4.0f} s"
        if self.left is not None:
            line += f", about {self.left:.0f} s left"
        print(f"\r{line:<78}" if self.on_terminal else line, flush=True)

    def _show(self) -> None:
        if self.on_terminal:
            self.shown = time.monotonic()
            print(f"\r{self.what:<44}  step {self.done} of {self.steps}".ljust(78), end="",
                  flush=True)


class TimeLeft:
    """How long the questions that are still to come will take. How many there are shows only as
    they are answered: what is guessed is that every candidate is asked for until one will do."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def answered(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def estimate(self, evidence: Evidence) -> float:
        """After at least one answer."""
        usual = 3 + 2 * (len(evidence.low_bit_regions) + 1)
        left = max(1, usual - len(evidence.branches))
        return left * sum(self.seconds) / len(self.seconds)
