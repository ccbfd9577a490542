"""Reads a run folder. A file of any length is read once, in bounded memory."""

import difflib
import json
import re
from collections import deque
from collections.abc import Callable
from pathlib import Path

from ..support import units
from ..summary import RECENT_STEPS, Summary
from ..telemetry.history import History
from ..telemetry.records import (DENSE_ROUTE, Attach, Buckets, Decision, Detach, Notice, RecordError,
                                 Step, parse)
from .columns import Columns

MAX_NOTICES = 200
_RANK_FILE = re.compile(r"rank(\d+)\.jsonl")


class RunError(Exception):
    """The problem with a run folder, in one sentence."""


class Run:
    """Everything that the report shows of a run."""

    def __init__(self, name: str, rank: int):
        self.name = name
        self.rank = rank
        self.summary = Summary()
        self.columns = Columns()
        self.notices: list[Notice] = []
        self.notes: list[str] = []  # about the file
        self.last_time: float | None = None
        self.is_finished = False
        self.buckets: Buckets | None = None  # the last layout
        # Times of steps with and without low bits whose previous step was of the same kind: a time is
        # measured from the first bucket of the previous step to that of the step.
        self.dense_seconds: deque[float] = deque(maxlen=RECENT_STEPS)
        self.low_bit_seconds: deque[float] = deque(maxlen=RECENT_STEPS)
        self.low_bit_steps = 0
        self._low_bit_bytes = self._low_bit_dense_bytes = 0  # of those steps
        self._before: tuple[int, bool] | None = None  # the last step, and whether it was dense
        self._unknown = 0
        self._returns = 0
        self._last_return = ""
        self._history = History()

    @property
    def attach(self) -> Attach:
        assert self.summary.attach
        return self.summary.attach

    @property
    def decisions(self) -> list[Decision]:
        """Without dropped decisions."""
        return self._history.decisions

    @property
    def low_bit_ratio(self) -> float | None:
        """Bytes over dense bytes, in the steps with low bits."""
        return units.ratio(self._low_bit_bytes, self._low_bit_dense_bytes)

    @property
    def is_shadow(self) -> bool:
        return self.summary.shadow_bytes is not None

    def add(self, record: object) -> None:
        """Raises RecordError, and then changes nothing."""
        event = parse(record)
        if self.summary.attach is None and not isinstance(event, (Attach, Notice)):
            raise RunError("does not start with an attach record")
        self.last_time = getattr(event, "time", None) or self.last_time
        match event:
            case Attach():
                self.is_finished = False
                self._before = None
                self._history.begin_job()
            case Step():
                self._add_step(event)
            case Buckets():
                self.buckets = event
            case Decision():
                self._history.decide(event)
            case Notice() if len(self.notices) < MAX_NOTICES:
                self.notices.append(event)
            case Detach():
                self.is_finished = True
            case None:
                self._unknown += 1
        self.summary.add(event)

    def end(self) -> None:
        if self.summary.attaches > 1:
            self.notes.append(f"The job was attached {self.summary.attaches:,} times.")
        if self._returns:
            self.notes.append("It resumed from an earlier step "
                              f"{units.counted(self._returns, 'time')}, last {self._last_return}; "
                              "plots omit the repeated steps.")
        if self._unknown:
            self.notes.append(f"{units.counted(self._unknown, 'record')} of an unknown kind: omitted.")
        if self.summary.steps and not self.is_finished:
            self.notes.append("There is no detach record: the job still runs, or was killed.")

    def _add_step(self, step: Step) -> None:
        before = self._history.last_step
        if self._history.add_step(step.step):
            self._returns += 1
            self._last_return = f"from {before:,} to {step.step:,}"
            self.columns.cut(step.step)
        self._compare(step)
        self.columns.at(step.step).add(step)

    def _compare(self, step: Step) -> None:
        is_dense = all(region.route == DENSE_ROUTE for region in step.regions)
        if step.seconds is not None and self._before == (step.step - 1, is_dense):
            (self.dense_seconds if is_dense else self.low_bit_seconds).append(step.seconds)
        self._before = step.step, is_dense
        if not is_dense:
            self.low_bit_steps += 1
            self._low_bit_bytes += sum(region.bytes for region in step.regions)
            self._low_bit_dense_bytes += sum(region.dense_bytes for region in step.regions)


def find_files(folder: Path) -> dict[int, Path]:
    """The files of a run by rank. Raises RunError if there are none."""
    if folder.is_file():
        match = _RANK_FILE.fullmatch(folder.name)
        return {int(match[1]) if match else 0: folder}
    if not folder.is_dir():
        near = _nearest(folder)
        raise RunError(f"there is no folder {folder}" + (f"; did you mean {near}?" if near else ""))
    files = {int(match[1]): path for path in folder.iterdir()
             if (match := _RANK_FILE.fullmatch(path.name))}
    if not files:
        raise RunError(f"{folder} has no rank0.jsonl: give the folder that was run_dir of attach()")
    return dict(sorted(files.items()))


def _nearest(folder: Path) -> Path | None:
    try:
        names = [path.name for path in folder.parent.iterdir() if path.is_dir()]
    except OSError:
        return None
    near = difflib.get_close_matches(folder.name, names, n=1)
    return folder.parent / near[0] if near else None


def read_run(folder: Path, progress: Callable[[float], None] = lambda share: None) -> Run:
    """The run in a folder, from the file of its lowest rank. Raises RunError."""
    files = find_files(folder)
    rank, path = next(iter(files.items()))
    run = Run(path.absolute().parent.name, rank)
    if others := [str(other) for other in files if other != rank]:
        run.notes.append(f"The page shows rank {rank}; there are also files of "
                         f"{'rank' if len(others) == 1 else 'ranks'} {', '.join(others)}.")
    if models := sorted(other.parent.name for other in path.parent.glob("model*/rank*.jsonl")):
        run.notes.append("The job had several models; make pages of their folders too: "
                         f"{', '.join(dict.fromkeys(models))}.")
    try:
        _read_file(run, path, progress)
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from error
    if run.summary.attach is None:
        raise RunError(f"{path} is empty: the job has not written records yet")
    run.end()
    return run


def _read_file(run: Run, path: Path, progress: Callable[[float], None]) -> None:
    size = path.stat().st_size or 1
    done, number, line = 0, 0, b""
    unreadable: list[int] = []
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            done += len(line)
            if number % 10_000 == 0:
                progress(done / size)
            if not line.strip():
                continue
            try:
                run.add(json.loads(line))
            except RunError as error:
                raise RunError(f"{path}: line {number} {error}") from error
            except (ValueError, RecursionError) as error:  # JSON that is cut off, or not ours
                if run.summary.attach is None:
                    raise RunError(f"{path} is not telemetry of neuron_fabric: line {number}: "
                                   f"{_reason(error)}") from error
                unreadable.append(number)
    if unreadable == [number] and not line.endswith(b"\n"):
        run.notes.append("The last line is incomplete, as after a killed job, and is omitted.")
    elif unreadable:
        run.notes.append(f"{units.counted(len(unreadable), 'line')} could not be read: "
                         f"omitted. The first is line {unreadable[0]}.")


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, RecordError) else "it is not JSON"
