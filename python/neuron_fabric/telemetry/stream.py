"""Passes the runtime's records to their readers, in the background of training."""

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
    """Receives records in order, from one thread at a time. A reader that raises is removed."""

    @abstractmethod
    def write(self, record: Record) -> None:
        """Called with each record."""

    def flush(self) -> None:
        """Called after the records of one drain."""

    def close(self) -> None:
        """The last call."""


def _write_all(reader: Reader, records: list[Record]) -> None:
    for record in records:
        reader.write(record)
    reader.flush()


def _nothing() -> None:
    pass


def _without_constants(_: str) -> None:
    """Turns NaN and Inf, which JSON does not have, into null."""


class Telemetry:
    """Drains records on a daemon thread every `interval` seconds and passes them to the readers.

    `drain` returns JSON texts, oldest first, and must not block. No method raises: a reader that fails
    is removed with one warning, and the others continue. The owner calls close(), also when the process
    exits.
    """

    def __init__(self, drain: Callable[[], Iterable[str]], readers: Iterable[Reader],
                 interval: float = 1.0):
        self._drain = drain
        self._readers = list(readers)
        self._interval = interval
        self._lock = threading.Lock()  # held while records are passed on
        # The thread's last task. A SimpleQueue accepts put() from any thread at any time, also from a
        # garbage collection.
        self._last: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._is_closed = False
        self._has_warned = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        self._thread.start()

    def poll(self) -> bool:
        """Drains now. False if a reader hangs and the records must wait."""
        if not self._lock.acquire(timeout=LOCK_SECONDS):
            return False
        try:
            self._pass_on()
        finally:
            self._lock.release()
        return True

    def close(self) -> None:
        """Stops the thread, reads the remaining records and closes the readers. Further calls are
        no-ops."""
        if self._is_closed or os.getpid() != self._process:  # a fork does not have the thread
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
        """Makes the thread call `close` and end. Never blocks: it may be called by a garbage collection
        in any thread, including the telemetry thread."""
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
        except Exception as error:  # noqa: BLE001  training must continue
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
        except Exception as error:  # noqa: BLE001  training must continue
            if reader in self._readers:
                self._readers.remove(reader)
                logger.warning("neuron_fabric: %s is removed, training continues: %s",
                               type(reader).__name__, error)
                self._attempt(reader, reader.close)
