"""Starts the ranks of a job on this machine, and says in a line why one of them failed."""

import contextlib
import importlib.util
import json
import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

JOB_FOLDER = "NF_JOB_FOLDER"  # tells ranks where to leave the causes of their failures
# Removed before each job, so nobody else's files have such names.
FAILURES = "nf-failures.jsonl"
LOG = "nf-log"


class LaunchError(Exception):
    """A job that could not start, or a rank of it that failed."""


class Interrupt(Exception):
    """A signal from outside ended the job."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


def require_packages() -> None:
    """Raises LaunchError where this Python cannot run ranks."""
    for name in ("torch", "neuron_fabric._C"):
        if importlib.util.find_spec(name) is None:
            raise LaunchError(f"this Python ({sys.executable}) has no {name}; in a checkout, "
                              "`make demo` installs and builds what is missing")


def launch(module: str, arguments: Sequence[str], ranks: int, out: Path) -> None:
    """Runs `python -m module arguments` in every rank, by torchrun, to the end of all of them.

    What ranks write to standard output goes where this process writes, their errors go to out/nf-log.
    Raises LaunchError with the cause where a rank fails, and Interrupt on a signal.
    """
    require_packages()
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    _clear(out)
    log = out / LOG
    words = run.parse_args([
        "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", str(ranks),
        "--log-dir", str(log), "--redirects", "2", "--module", module, *arguments])
    with _environment(out), _quiet():
        try:
            run.run(words)
        except ChildFailedError as error:
            print(flush=True)  # ends a line of progress
            raise LaunchError(f"{_cause(error, out)}; {log} has what the ranks said") from None
        except SignalException as error:
            raise Interrupt(error.sigval) from None


def run_rank(work: Callable[[], None]) -> int:
    """What a rank that launch() started does: the work, or the cause of its failure for all to see."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # also while a collective waits
    try:
        work()
    except Exception as error:
        if folder := os.environ.get(JOB_FOLDER):
            told = {"rank": int(os.environ["RANK"]), "error": str(error)}
            with open(Path(folder) / FAILURES, "a", encoding="utf-8") as file:
                file.write(json.dumps(told) + "\n")
        raise
    return 0


def _clear(out: Path) -> None:
    """Makes the folder, without what an earlier job said."""
    out.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(out / LOG, ignore_errors=True)
    (out / FAILURES).unlink(missing_ok=True)


@contextlib.contextmanager
def _environment(out: Path) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # ranks share the machine's cores
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ[JOB_FOLDER] = str(out.resolve())
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """torchrun tells at length what LaunchError tells in a line."""
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _cause(error: Any, out: Path) -> str:
    """The first to fail is the cause; the others lose their peer. A rank that a signal ended is the
    first, unless it had told a failure of its own before."""
    path = out / FAILURES
    told = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()
            ] if path.exists() else []
    for rank, failure in sorted(error.failures.items()):
        ended = failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM
        if ended and rank not in [failed["rank"] for failed in told]:
            return f"rank {rank} was ended by {failure.signal_name()}"
    if told:
        return f"rank {told[0]['rank']}: {told[0]['error']}"
    rank, failure = error.get_first_failure()
    return f"rank {rank} ended with status {failure.exitcode}"
