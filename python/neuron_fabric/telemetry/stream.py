"""Carries the runtime's records to their readers, beside training and never in its way."""

import functools
import json
import logging
import os
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

logger = logging.getLogger(__name__)

Record = dict[str, Any]
LOCK_SECONDS = 5.0  # how long poll() and close() wait for a reader that hangs
THREAD_NAME = "nf-telemetry"


class Reader(ABC):
    """Takes records, one after the other, from one thread at a time. One that raises is dropped."""

    @abstractmethod
    def write(self, record: Record) -> None:
        """The next one."""

    def flush(self) -> None:
        """After the records of one drain."""

    def close(self) -> None:
        """Last call. Not followed by others."""


def _write_all(reader: Reader, records: list[Record]) -> None:
    for record in records:
        reader.write(record)
    reader.flush()


def _nothing() -> None:
    pass


def _without_constants(_: str) -> None:
    """NaN and infinities, which JSON does not have, become null."""


class Telemetry:
    """Drains records on a daemon thread once in `interval` seconds and hands them to the readers.

    `drain` gives JSON texts, oldest first, and must not block. Nothing here raises: a reader that
    fails is dropped with one warning, and the others go on. Its owner calls close(), also at the
    end of the process.
    """

    def __init__(self, drain: Callable[[], Iterable[str]], readers: Iterable[Reader],
                 interval: float = 1.0):
        self._drain = drain
        self._readers = list(readers)
        self._interval = interval
        self._lock = threading.Lock()  # held while records are on their way
        # What the thread does last; a queue that can be put into at any moment of any thread.
        self._last: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._is_closed = False
        self._has_warned = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        self._thread.start()

    def poll(self) -> bool:
        """Drains now. False where a reader hangs and the records must wait."""
        if not self._lock.acquire(timeout=LOCK_SECONDS):
            return False
        try:
            self._pass_on()
        finally:
            self._lock.release()
        return True

    def close(self) -> None:
        """Stops the thread, reads what is left and closes the readers. Further calls do nothing."""
        if self._is_closed or os.getpid() != self._process:  # a fork has no thread of ours
            return
        self._is_closed = True
        if threading.current_thread() is not self._thread:
            self._last.put(_nothing)
            self._thread.join(LOCK_SECONDS)
        if not self.poll():
            logger.warning("neuron_fabric: telemetry hangs; its last records are lost")
            return
        for reader in list(self._readers):
            self._attempt(reader, reader.close)
        self._readers.clear()

    def leave(self, close: Callable[[], None]) -> None:
        """Lets the thread call `close`, and end. Waits for nothing: for a garbage collection, which may
        be in any thread, also in that one."""
        self._last.put(close)

    def _run(self) -> None:
        while True:
            try:
                last = self._last.get(timeout=self._interval)
            except queue.Empty:
                self.poll()
                continue
            last()
            return

    def _pass_on(self) -> None:
        records = self._records()
        if records:
            for reader in list(self._readers):
                self._attempt(reader, functools.partial(_write_all, reader, records))

    def _records(self) -> list[Record]:
        try:
            texts = list(self._drain())
        except Exception as error:  # noqa: BLE001  training goes on whatever it is
            self._warn_of_loss(error)
            return []
        records = []
        for text in texts:
            try:
                records.append(json.loads(text, parse_constant=_without_constants))
            except ValueError as error:
                self._warn_of_loss(error)
        return records

    def _warn_of_loss(self, error: Exception) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning("neuron_fabric: some telemetry is lost: %s", error)

    def _attempt(self, reader: Reader, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001  training goes on whatever it is
            if reader in self._readers:
                self._readers.remove(reader)
                logger.warning("neuron_fabric: %s is dropped, training goes on: %s",
                               type(reader).__name__, error)
                self._attempt(reader, reader.close)
