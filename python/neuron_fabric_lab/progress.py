"""The progress of a training run."""

import sys
import time

LINES = 4  # per run, if the output is not a terminal


class Progress:
    """One line per run that is updated on a terminal; otherwise a few lines."""

    def __init__(self, title: str, steps: int) -> None:
        self.title = title
        self.steps = steps
        self.started = time.monotonic()
        self.first = None  # the end of the first step, which is slower than the others
        self.shown = 0.0
        self.on_terminal = sys.stdout.isatty()

    def __call__(self, step: int, loss: float) -> None:
        now = time.monotonic()
        self.first = self.first or now
        is_last = step == self.steps
        if self.on_terminal:
            if now - self.shown < 0.2 and not is_last:
                return
            self.shown = now
        elif step % max(1, self.steps // LINES) and not is_last:
            return
        line = (f"{self.title:<18}  step {step:>4} of {self.steps}  loss {loss:7.4f}  "
                f"{now - self.started:4.0f} s")
        if 1 < step < self.steps:
            line += f", {(now - self.first) / (step - 1) * (self.steps - step):3.0f} s left"
        if self.on_terminal:
            print(f"\r{line:<78}", end="\n" if is_last else "", flush=True)
        else:
            print(line, flush=True)
