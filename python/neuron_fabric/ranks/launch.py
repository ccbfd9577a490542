"""Starts the ranks of a job on this host, and reports in one line why one of them failed."""

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

JOB_FOLDER = "NF_JOB_FOLDER"  # the folder in which ranks record their failures
# Removed before each job, so these names must not be used for anything else.
FAILURES = "nf-failures.jsonl"
LOG = "nf-log"


class LaunchError(Exception):
    """A job that could not start, or one of whose ranks failed. `log` is the folder with their logs."""

    def __init__(self, cause: str, log: Path | None = None) -> None:
        super().__init__(f"{cause}; the logs of the ranks are in {log}" if log else cause)
        self.cause = cause


class Interrupt(Exception):
    """A signal ended the job."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


def require_packages() -> None:
    """Raises LaunchError if this Python cannot run ranks."""
    for name in ("torch", "neuron_fabric._C"):
        if importlib.util.find_spec(name) is None:
            raise LaunchError(f"this Python ({sys.executable}) has no {name}; in a checkout, "
                              "`make demo` installs and builds what is missing")


def launch(module: str, arguments: Sequence[str], ranks: int, out: Path) -> None:
    """Runs `python -m module arguments` on every rank with torchrun, and waits for all of them.

    Ranks share this process's standard output; their standard error goes to out/nf-log. Raises
    LaunchError with the cause if a rank fails, and Interrupt on a signal.
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
            print(flush=True)  # end the progress line
            raise LaunchError(_cause(error, out), log) from None
        except SignalException as error:
            raise Interrupt(error.sigval) from None


def run_rank(work: Callable[[], None]) -> int:
    """The main function of a rank that launch() started. If `work` fails, records the cause for
    launch() and raises it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # also ends a collective that waits
    try:
        work()
    except Exception as error:
        if folder := os.environ.get(JOB_FOLDER):
            failure = {"rank": int(os.environ["RANK"]), "error": str(error)}
            with open(Path(folder) / FAILURES, "a", encoding="utf-8") as file:
                file.write(json.dumps(failure) + "\n")
        raise
    return 0


def _clear(out: Path) -> None:
    """Creates the folder and removes the logs of an earlier job."""
    out.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(out / LOG, ignore_errors=True)
    (out / FAILURES).unlink(missing_ok=True)


@contextlib.contextmanager
def _environment(out: Path) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # ranks share the host's cores
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    os.environ[JOB_FOLDER] = str(out.resolve())
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences torchrun's long report; LaunchError states the cause in one line."""
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _cause(error: Any, out: Path) -> str:
    """The first failure is the cause; the other ranks fail because they lose a peer. A rank killed by a
    signal comes first, unless it had recorded a failure before."""
    path = out / FAILURES
    recorded = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()
                ] if path.exists() else []
    for rank, failure in sorted(error.failures.items()):
        was_killed = failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM
        if was_killed and rank not in [failed["rank"] for failed in recorded]:
            return f"rank {rank} was killed by {failure.signal_name()}"
    if recorded:
        return f"rank {recorded[0]['rank']}: {recorded[0]['error']}"
    rank, failure = error.get_first_failure()
    return f"rank {rank} exited with status {failure.exitcode}"
