"""Real ranks for tests: processes with a Gloo process group between them.

    on_ranks(4, train, "waterfill:4")  # calls train("waterfill:4") on four ranks

returns the function's results, by rank. Functions are pickled by name, so they must be defined at the
top of a module. The processes are forked from a server that has PyTorch loaded, and are reused by
the next call with the same number of ranks, until one fails. If a rank fails or times out, the test
fails with the exception or the stack of every rank.
"""

import atexit
import faulthandler
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

GRACE_SECONDS = 5.0  # for the other ranks, after one has failed
MAX_THREADS = 64  # of a process that is reused
GROUP_TIMEOUT = timedelta(seconds=40)
HOST = "127.0.0.1"

_PRELOAD = ["pytest", "torch", "torch.distributed", "torch.nn.parallel", "torch._dynamo",
            "sklearn.datasets", "neuron_fabric.entry", "neuron_fabric.comm_hook"]


class RanksFailed(AssertionError):
    """One rank or more raised, died or hung."""


def on_ranks(ranks: int, function: Callable, *args: Any, timeout: float = 120.0, fresh: bool = False,
             **options: Any) -> list[Any]:
    """Calls function(*args, **options) on `ranks` ranks; `fresh` starts new processes for it."""
    __tracebackhide__ = True
    group = None if fresh else _groups.pop(ranks, None)
    group = group or _Group(ranks)
    try:
        results = group.call(function, args, options, timeout)
    except BaseException:
        group.kill()
        raise
    if fresh:
        group.close()
    elif group.is_crowded():
        group.kill()
    else:
        _groups[ranks] = group
    return results


_groups: dict[int, "_Group"] = {}


@atexit.register
def _close_all() -> None:
    for group in _groups.values():
        group.close()
    _groups.clear()


def _server() -> Any:
    """A context whose processes start with all modules imported."""
    context = multiprocessing.get_context("forkserver")
    # The server has the module path of a new interpreter.
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    os.environ["OMP_NUM_THREADS"] = "1"
    context.set_forkserver_preload(_PRELOAD)
    return context


class _Group:
    """The processes of one job."""

    def __init__(self, ranks: int) -> None:
        context = _server()
        self._folder = tempfile.TemporaryDirectory(prefix="nf-ranks-")
        self._store = dist.TCPStore(HOST, 0, is_master=True, wait_for_workers=False)
        self._pipes: list[Connection] = []
        self._processes = []
        for rank in range(ranks):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(rank, ranks, self._store.port, theirs, self._stack_file(rank)),
                daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def call(self, function: Callable, args: tuple, options: dict, timeout: float) -> list[Any]:
        __tracebackhide__ = True
        job = pickle.dumps((function, args, options))
        answers: dict[int, tuple[bool, Any]] = {}
        try:
            for pipe in self._pipes:
                pipe.send_bytes(job)
        except OSError:  # a rank died between two calls; receiving finds out which
            pass
        deadline = time.monotonic() + timeout
        while len(answers) < len(self._pipes):
            waiting = {pipe: rank for rank, pipe in enumerate(self._pipes) if rank not in answers}
            ready = wait(list(waiting), max(0.0, deadline - time.monotonic()))
            if not ready:
                break
            for pipe in ready:
                rank = waiting[pipe]
                answers[rank] = self._answer(rank, pipe)
                if not answers[rank][0]:
                    deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
        if len(answers) < len(self._pipes) or not all(good for good, _ in answers.values()):
            raise RanksFailed(self._failure_report(answers, timeout))
        return [answers[rank][1] for rank in range(len(self._pipes))]

    def _answer(self, rank: int, pipe: Connection) -> tuple[bool, Any]:
        try:
            return pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            self._processes[rank].join(GRACE_SECONDS)
            return False, f"died, exit code {self._processes[rank].exitcode}\n{self._stack(rank)}"

    def _failure_report(self, answers: dict[int, tuple[bool, Any]], timeout: float) -> str:
        hung = [rank for rank in range(len(self._pipes)) if rank not in answers]
        for rank in hung:
            os.kill(self._processes[rank].pid, signal.SIGUSR1)
        if hung:
            time.sleep(0.5)  # while they write their stacks
        lines = []
        for rank in range(len(self._pipes)):
            good, what = answers.get(rank, (False, None))
            if rank in hung:
                lines.append(f"rank {rank} did not finish within {timeout:g} s:\n"
                             f"{self._stack(rank)}")
            else:
                lines.append(f"rank {rank} finished" if good else f"rank {rank} {what}")
        return "\n".join(lines)

    def _stack_file(self, rank: int) -> str:
        return str(Path(self._folder.name) / f"rank{rank}")

    def _stack(self, rank: int) -> str:
        try:
            return Path(self._stack_file(rank)).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return "(no stack)"

    def is_crowded(self) -> bool:
        """Whether calls have left many threads behind. A mesh makes several groups of Gloo, which are not
        destroyed with it, and whose threads poll."""
        return any(len(os.listdir(f"/proc/{process.pid}/task")) > MAX_THREADS for process in self._processes)

    def close(self) -> None:
        """Waits until the processes have exited."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(GRACE_SECONDS)
        self.kill()

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()
        self._folder.cleanup()


def _serve(rank: int, ranks: int, port: int, pipe: Connection, stack_file: str) -> None:
    """The main loop of one rank."""
    gc.freeze()  # otherwise the collector copies all that was imported before the fork
    with open(stack_file, "w", encoding="utf-8") as stacks:
        faulthandler.enable(stacks)
        faulthandler.register(signal.SIGUSR1, stacks)
        torch.set_num_threads(1)
        store = dist.TCPStore(HOST, port, is_master=False)
        dist.init_process_group(
            "gloo", store=store, rank=rank, world_size=ranks, timeout=GROUP_TIMEOUT)
        while True:
            try:
                function, args, options = pickle.loads(pipe.recv_bytes())
            except EOFError:
                break
            try:
                answer = pickle.dumps((True, function(*args, **options)))
            except BaseException:  # noqa: BLE001  all exceptions go to the test
                answer = pickle.dumps((False, f"raised\n{traceback.format_exc()}"))
            pipe.send_bytes(answer)
        dist.destroy_process_group()
