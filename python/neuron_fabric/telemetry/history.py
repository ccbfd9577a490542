"""The valid records of a run. Jobs append to one file. A job that resumes from a checkpoint repeats the
steps after it: the earlier records of these steps are dropped, so that each step counts once."""

from .records import Decision


class History:
    """Takes the records of a run in order."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.last_step: int | None = None
        self._old = 0  # decisions before the last step, or before the last job

    def begin_job(self) -> None:
        self._old = len(self.decisions)

    def decide(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def add_step(self, step: int) -> bool:
        """Whether a checkpoint was loaded. If so, everything from `step` on is dropped, except
        decisions since the load."""
        is_return = self.last_step is not None and step <= self.last_step
        if is_return:
            old, new = self.decisions[:self._old], self.decisions[self._old:]
            self.decisions = [decision for decision in old if decision.step < step] + new
        self._old = len(self.decisions)
        self.last_step = step
        return is_return
