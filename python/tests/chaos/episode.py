"""Runs an episode and checks what must hold after it.

- No rank hangs: the survivors end, or the job goes on after a pause.
- No rank crashes, and every survivor ends with an exception that names the cause.
- A job that is resumed from its newest checkpoint ends with the bits of a job without an event.
- Nothing is left behind.
"""

import contextlib
import re
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from workers.job import End
from workers.job import Job as Processes

from .leaks import snapshot
from .plan import Episode, Job

TIMEOUT = 8.0   # seconds for a step; also enough for the rendezvous on a loaded machine
PAUSE = 0.8     # seconds; well below the timeout
SIGNALS = {"kill": signal.SIGKILL, "kill_two": signal.SIGKILL, "terminate": signal.SIGTERM, "stop": signal.SIGSTOP,
           "pause": signal.SIGSTOP, "raise": signal.SIGUSR1, "memory": signal.SIGUSR2}
# A collective of the wrapper itself does not name the rank that it waits for.
OF_A_WRAPPER = r"[Cc]onnection (closed|reset|refused)|[Tt]imed out|Broken pipe"
NAMED = r"rank {rank} (is gone|aborted|did not|has left)|for (statistics from )?rank {rank}\b"


class Finding(Exception):
    """Something that must not happen."""


@dataclass
class Outcome:
    episode: Episode
    findings: list[str] = field(default_factory=list)
    went_on: bool = False      # the job, to its end
    resumed_at: int = 0        # step
    seconds: float = 0.0


class Runner:
    """Runs episodes, and each kind of job once without an event. `is_alone`: no other job of this machine leaves
    files, so those that an episode leaves are its own."""

    def __init__(self, is_alone: bool) -> None:
        self.is_alone = is_alone
        self._digests: dict[Job, list[str]] = {}

    def run(self, episode: Episode) -> Outcome:
        started, outcome = time.monotonic(), Outcome(episode)
        try:
            expected = self.expected(episode.job)
            before = snapshot()
            with TemporaryDirectory(prefix="chaos-") as folder:
                goes_on = self._disturb(episode, Path(folder), outcome, expected)
                if not goes_on:
                    outcome.resumed_at = self._finish(episode.job, Path(folder), expected)
            if self.is_alone and (left := snapshot() - before):
                raise Finding(f"left behind: {', '.join(sorted(left))}")
        except (Finding, AssertionError) as finding:
            outcome.findings.append(str(finding))
        outcome.seconds = time.monotonic() - started
        return outcome

    def expected(self, job: Job) -> list[str]:
        """The bits of every rank at the end of an undisturbed job."""
        if job not in self._digests:
            with TemporaryDirectory(prefix="chaos-") as folder, processes(job, Path(folder)) as running:
                self._digests[job] = digests(running.join())
        return self._digests[job]

    def _disturb(self, episode: Episode, folder: Path, outcome: Outcome, expected: list[str]) -> bool:
        """Returns whether the job has reached its end."""
        with processes(episode.job, folder) as running:
            if episode.moment == "training":
                running.wait_for("ready")
            time.sleep(episode.delay)
            for victim in episode.victims:
                with contextlib.suppress(ProcessLookupError):
                    running.signal(victim, SIGNALS[episode.event])
            if episode.event == "pause":
                time.sleep(PAUSE)
                running.signal(episode.victims[0], signal.SIGCONT)
                outcome.went_on = True
                check_digests(running.join(), expected)
                return True
            ends = running.join(episode.survivors)
            if all(end.code == 0 for end in ends):  # no rank was lost, or all were at their end
                outcome.went_on = True
                check_digests(ends, [expected[rank] for rank in episode.survivors])
                return len(episode.survivors) == episode.job.ranks
            check_survivors(episode, ends)
            if episode.event in ("raise", "memory"):
                for end in running.join(list(episode.victims)):
                    end.check_clean()
        return False

    @staticmethod
    def _finish(job: Job, folder: Path, expected: list[str]) -> int:
        with processes(job, folder) as running:
            ends = running.join()
        check_digests(ends, expected)
        return ends[0].event("end")["resumed_at"]


def processes(job: Job, folder: Path) -> Processes:
    return Processes(job.ranks, "chaos.py", job.source, "--route", job.route, "--timeout", str(TIMEOUT),
                     "--folder", str(folder))


def digests(ends: list[End]) -> list[str]:
    for end in ends:
        end.check_clean()
        if end.code != 0:
            raise Finding(f"rank {end.rank} ended with {end.code}:\n{end.errors}")
    return [end.event("end")["digest"] for end in ends]


def check_digests(ends: list[End], expected: list[str]) -> None:
    actual = digests(ends)
    if actual != expected:
        raise Finding(f"the ranks ended with the bits {actual}, not {expected}")


def check_survivors(episode: Episode, ends: list[End]) -> None:
    messages = {}
    for end in ends:
        end.check_clean()
        if end.code != 1:
            raise Finding(f"rank {end.rank} ended with {end.code}:\n{end.errors}")
        messages[end.rank] = end.event("raised")["message"]
    if episode.moment == "start" or 0 in episode.victims:
        return  # without a runtime, or without the store of rank 0, there is no news of a rank
    names = "|".join(NAMED.format(rank=rank) for rank in episode.victims)
    if episode.job.source in ("ddp", "replicate"):
        unnamed = {rank: text for rank, text in messages.items() if not re.search(names, text)}
    else:
        others = NAMED.format(rank=r"\d")
        unnamed = {rank: text for rank, text in messages.items() if not re.search(f"{others}|{OF_A_WRAPPER}", text)}
    if unnamed:
        raise Finding("; ".join(f"rank {rank} does not name the cause: {text}" for rank, text in unnamed.items()))
