"""A training job of plain processes, without torchrun: ranks that a test can kill, stop or observe.

    with Job(3, "train.py", "--route", "fp32") as job:
        job.wait_for("ready")
        job.signal(1, signal.SIGKILL)
        ends = job.join([0, 2])

Workers report events as JSON objects, one per line, on standard output. Leaving the block kills the
ranks that still run.
"""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PATIENCE = 120.0  # seconds; longer is a hang, even on a slow machine
CRASHES = ("terminate called", "Fatal Python error", "Segmentation fault", "Aborted")


@dataclass
class End:
    """How one rank ended."""

    rank: int
    code: int
    events: list[dict]
    errors: str  # its standard error

    def event(self, name: str) -> dict:
        found = [event for event in self.events if event["event"] == name]
        assert found, f"rank {self.rank} did not report {name!r}, exit code {self.code}:\n{self.errors}"
        return found[-1]

    def check_clean(self, by: int = 0) -> None:
        """The rank did not crash; it may have died of the signal `by`."""
        assert self.code >= 0 or self.code == -by, \
            f"rank {self.rank} was killed by signal {-self.code}:\n{self.errors}"
        for crash in CRASHES:
            assert crash not in self.errors, f"rank {self.rank}:\n{self.errors}"


class _ForkServer:
    """The process that ranks are forked from; started on first use."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._process: subprocess.Popen | None = None

    def fork(self, job: dict) -> tuple[list[int], subprocess.Popen]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, HERE / "fork_server.py"], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True, env=environment())
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline()), self._process


_fork_server = _ForkServer()


def environment(**more: str) -> dict[str, str]:
    """The environment of a process with the module path of the test and one thread."""
    path = os.pathsep.join(part for part in sys.path if part)
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"} | more


def free_port() -> int:
    """Below the ports of outgoing connections, of which one might take it before the job does."""
    while True:
        port = 20_000 + secrets.randbelow(9_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Job:
    def __init__(self, ranks: int, script: str, *arguments: str) -> None:
        self.ranks = ranks
        self._folder = tempfile.TemporaryDirectory(prefix="nf-job-")
        self._codes: dict[int, int] = {}
        self._ended = threading.Condition()
        _fork_server.lock.acquire()
        pids, server = _fork_server.fork({
            "ranks": ranks, "folder": self._folder.name,
            "command": [str(HERE / script), *arguments],
            "environment": {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                            "WORLD_SIZE": str(ranks)}})
        self._pids = pids
        self._reaper = threading.Thread(target=self._reap, args=(server,), daemon=True)
        self._reaper.start()

    def _reap(self, server: subprocess.Popen) -> None:
        for _ in range(self.ranks):
            pid, code = json.loads(server.stdout.readline())
            with self._ended:
                self._codes[self._pids.index(pid)] = code
                self._ended.notify_all()

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_: object) -> None:
        with self._ended:
            for rank in range(self.ranks):
                if rank not in self._codes:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(self._pids[rank], signal.SIGKILL)
        self._reaper.join(PATIENCE)
        _fork_server.lock.release()
        self._folder.cleanup()

    def signal(self, rank: int, number: int) -> None:
        os.kill(self._pids[rank], number)

    def events(self, rank: int) -> list[dict]:
        lines = self._read("out", rank).split("\n")[:-1]  # the last line may be incomplete
        return [json.loads(line) for line in lines if line.startswith("{")]

    def _read(self, name: str, rank: int) -> str:
        with contextlib.suppress(FileNotFoundError):
            return Path(self._folder.name, f"{name}{rank}").read_text(errors="replace")
        return ""

    def wait_for(self, name: str) -> None:
        """Waits until every rank has reported the event."""
        deadline = time.monotonic() + PATIENCE
        while not all(any(event["event"] == name for event in self.events(rank))
                      for rank in range(self.ranks)):
            assert not self._codes, f"ranks ended too soon: {self._codes}\n{self._errors()}"
            assert time.monotonic() < deadline, f"no {name!r} of every rank\n{self._errors()}"
            time.sleep(0.02)

    def join(self, ranks: list[int] | None = None) -> list[End]:
        """Waits until these ranks, or all, have exited."""
        ranks = list(range(self.ranks)) if ranks is None else ranks
        with self._ended:
            self._ended.wait_for(lambda: all(rank in self._codes for rank in ranks), PATIENCE)
            hung = [rank for rank in ranks if rank not in self._codes]
        assert not hung, f"ranks {hung} hang; exit codes {self._codes}\n{self._errors()}"
        return [End(rank, self._codes[rank], self.events(rank), self._read("err", rank))
                for rank in ranks]

    def _errors(self) -> str:
        return "\n".join(f"-- rank {rank}: {self.events(rank)[-1:]}\n{self._read('err', rank)}"
                         for rank in range(self.ranks))
