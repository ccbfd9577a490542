"""Runs of nf train, each in its own folder. Finished runs are not repeated."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuron_fabric.ranks.launch import Interrupt
from neuron_fabric_lab.train.checkpoint import OtherRun, check_same, kept_run
from neuron_fabric_lab.train.options import TrainOptions, file_name, parse
from neuron_fabric_lab.train.result import is_finished, read_result
from neuron_fabric_lab.train.run import SHARED

POLL_SECONDS = 0.1
LAST_LINES = 3  # of a run that failed
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Job:
    route: str
    seed: int
    out: Path
    arguments: tuple[str, ...]  # of nf train
    launcher: tuple[str, ...] = ()  # starts its ranks; nf train by default
    shared: bool = False  # whether other runs share the machine

    @property
    def name(self) -> str:
        return f"{self.route}, seed {self.seed}"

    def options(self) -> TrainOptions:
        return parse(list(self.arguments), [self.arguments[0]])

    def check_kept(self) -> None:
        """Raises OtherRun if the folder has another run, or one with another launcher, whose times belong
        to other links."""
        check_same(self.out, self.options().identity())
        command = (kept_run(self.out) or {}).get("command")
        if command and (other := launcher_of(command)) != list(self.launcher):
            raise OtherRun(f"{self.out} has a run that was started {_by(other)}, not {_by(self.launcher)}; "
                           "use another --out")

    def result(self) -> dict[str, Any] | None:
        """The result of the finished run; None if there is none."""
        result = read_result(self.out)
        return result if is_finished(result, self.options().identity()) else None


def make_jobs(out: Path, routes: Sequence[str], seeds: int, arguments: Sequence[str],
              launcher: Sequence[str] = (), shared: bool = False) -> list[Job]:
    """Ordered by seed, so that the routes of one seed are complete early."""
    jobs = []
    for seed in range(1, seeds + 1):
        for route in routes:
            folder = out / f"{file_name(route)}-seed{seed}"
            words = (*arguments, "--route", route, "--seed", str(seed), "--out", str(folder))
            jobs.append(Job(route, seed, folder, words, tuple(launcher), shared))
    return jobs


def launcher_of(command: str) -> list[str]:
    """The launcher in front of nf train."""
    words = shlex.split(command)
    pairs = list(zip(words, words[1:]))
    return words[:pairs.index(("nf", "train"))] if ("nf", "train") in pairs else []


def _by(launcher: Sequence[str]) -> str:
    return f'by "{shlex.join(launcher)}"' if launcher else "without a --launcher"


class Failures(Exception):
    """Runs that ended without a result."""


def run_all(jobs: Sequence[Job], at_a_time: int, report: Callable[[str], None]) -> None:
    """Raises Failures at the end if some failed, and Interrupt on a signal. In every case all runs have
    ended; interrupted runs keep their state."""
    waiting = [job for job in jobs if job.result() is None]
    if kept := len(jobs) - len(waiting):
        report(f"{kept} of {len(jobs)} runs already exist")
    failed: list[str] = []
    done, began = 0, time.monotonic()
    with _recorded_signals() as signals, _terminated_at_exit() as running:
        while waiting or running:
            while waiting and len(running) < at_a_time:
                job = waiting.pop(0)
                running[job] = _start(job)
            time.sleep(POLL_SECONDS)
            if signals:
                raise Interrupt(signals[0])
            for job in [job for job, process in running.items() if process.poll() is not None]:
                del running[job]
                done += 1
                each = (time.monotonic() - began) / done
                if (result := job.result()) is None:
                    failed.append(f"{job.name}: {_last_lines(job)}")
                    report(failed[-1])
                else:
                    report(f"{job.name}: {_outcome(result, each * (len(waiting) + len(running)))}")
    if failed:
        raise Failures("\n".join(failed))


@contextlib.contextmanager
def _recorded_signals() -> Iterator[list[int]]:
    """The signals that would end this process, as they arrive. They raise no exception: one raised between
    the start of a run and its registration would leave that run behind. Ignored signals, as under nohup,
    stay ignored."""
    noted: list[int] = []
    before = {number: handler for number in ENDING
              if (handler := signal.getsignal(number)) is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _terminated_at_exit() -> Iterator[dict[Job, subprocess.Popen]]:
    """Ends the runs that are still running."""
    running: dict[Job, subprocess.Popen] = {}
    try:
        yield running
    finally:
        for process in running.values():
            process.terminate()  # jobs in the background of a script ignore interrupts
        for process in running.values():
            process.wait()


def _start(job: Job) -> subprocess.Popen:
    job.out.mkdir(parents=True, exist_ok=True)
    words = [*job.launcher, sys.executable, "-P", "-m", "neuron_fabric_lab.train", *job.arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                                "NF_COMMAND": shlex.join([*job.launcher, "nf", "train", *job.arguments])}
    environment |= {SHARED: "1"} if job.shared else {}
    with open(job.out / "train.log", "w") as log:
        # In a separate session; otherwise an interrupt would reach the ranks before the run.
        return subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=environment,
                                start_new_session=True)


def _outcome(result: dict[str, Any], seconds_left: float) -> str:
    left = f", about {seconds_left:.0f} s left" if seconds_left else ""
    return (f"{100 * result['accuracy']:.2f} %, loss {result['loss']:.4f}, {result['seconds']:.1f} s{left}")


def _last_lines(job: Job) -> str:
    lines = [line for line in (job.out / "train.log").read_text().splitlines() if line.strip()]
    return " ".join(lines[-LAST_LINES:]) or "without a message"
