"""What runs behind a session and has to end, once: its runtime in the core and its telemetry."""

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
    """Threads that wait for peers must end before the interpreter does, and so must those that close
    models which were dropped: a thread that comes back from the core then aborts the process."""
    for running in list(_running):
        running.close()
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join(LOCK_SECONDS)


class Running:
    """Its threads hold it until it is closed, so it holds nothing of the session: that goes with the
    model, and then this is closed.

    about: what only PyTorch knows of the job, for its first record.
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

    def tell(self, record: dict[str, object]) -> None:
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
        """Waits for whoever is closing it already."""
        with self._closing:
            self._close()

    def leave(self) -> None:
        """Closes it soon, in a thread of its own. Can be called by a garbage collection.

        On a device it goes on to the end of the process: communicators there wait for those of other
        ranks when they go, and ranks do not collect garbage at the same time.
        """
        if self.runtime.place == "host":
            self.telemetry.leave(self._close_unless_closing)

    def _close_unless_closing(self) -> None:
        if self._closing.acquire(blocking=False):  # whoever is closing it waits for this thread
            try:
                self._close()
            except Exception as error:  # noqa: BLE001  nobody is there to be told
                logger.warning("neuron_fabric: a model that was dropped: %s", error)
            finally:
                self._closing.release()

    def _close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self.runtime.drain()
            self.tell({"event": "detach", "step": self.runtime.step})
            self.telemetry.close()
            self.runtime.close()
        finally:
            _running.discard(self)  # from here on, the end of the process does not wait for it
