"""The threads of a session, which must end exactly once: its runtime in the core and its telemetry."""

import atexit
import json
import logging
import threading
import time
from collections.abc import Iterable

from neuron_fabric import _C
from neuron_fabric.telemetry import Reader, Telemetry
from neuron_fabric.telemetry.stream import LOCK_SECONDS, THREAD_NAME

logger = logging.getLogger(__name__)

_running: "set[Running]" = set()


@atexit.register
def _close_all() -> None:
    """Ends the threads that wait for peers, and those that close garbage-collected models, before the
    interpreter exits: a thread that returns from the core after that aborts the process."""
    for running in list(_running):
        running.close()
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join(LOCK_SECONDS)


class Running:
    """The runtime and the telemetry of one session.

    Its threads keep it alive until it is closed. It must not reference the session, which is collected
    with the model and then closes this object.

    about: fields that only PyTorch has, for the first record.
    """

    def __init__(self, runtime: _C.Runtime, readers: Iterable[Reader],
                 about: dict[str, object]) -> None:
        self.runtime = runtime
        self._about = about
        self._notices: list[str] = []
        self._closing = threading.RLock()
        self._is_closed = False
        self.telemetry = Telemetry(self._records, readers)
        _running.add(self)

    def write(self, record: dict[str, object]) -> None:
        """Adds a record to the telemetry."""
        self._notices.append(json.dumps(record | {"time": time.time()}))

    def _records(self) -> list[str]:
        records = self.runtime.records()
        while self._notices:
            records.append(self._notices.pop(0))
        for i, text in enumerate(records):
            if text.startswith('{"event":"attach"'):
                records[i] = json.dumps(json.loads(text) | self._about)
        return records

    def close(self) -> None:
        """If another thread is closing it, waits for that thread."""
        with self._closing:
            self._close()

    def leave(self) -> None:
        """Closes it in a separate thread. May be called during garbage collection.

        On a device it stays open until the process exits: destroying a communicator waits for the other
        ranks, and ranks do not collect garbage at the same time.
        """
        if self.runtime.place == "host":
            self.telemetry.leave(self._close_unless_closing)

    def _close_unless_closing(self) -> None:
        if self._closing.acquire(blocking=False):  # otherwise the closing thread waits for this one
            try:
                self._close()
            except Exception as error:  # noqa: BLE001  no caller could catch it
                logger.warning("neuron_fabric: closing a garbage-collected model failed: %s", error)
            finally:
                self._closing.release()

    def _close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self.runtime.drain()
            self.write({"event": "detach", "step": self.runtime.step})
            self.telemetry.close()
            self.runtime.close()
        finally:
            _running.discard(self)  # from now on, exit does not wait for it
