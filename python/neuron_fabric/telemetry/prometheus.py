"""Telemetry for Prometheus: served over HTTP, or in a file for the textfile collector of
node_exporter."""

import contextlib
import http.client
import socket
import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from ..support.files import write_atomic
from .metrics import Metrics
from .stream import Reader, Record

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FILE_ENDING = ".prom"  # the collector reads no other files
LOOPBACK = "127.0.0.1"
MAX_CONNECTIONS = 16
CONNECTION_SECONDS = 10.0  # from accepting a connection to closing it
JOIN_SECONDS = 1.0  # for the thread of a connection that was shut down
MAX_REQUEST_BYTES = 16 * 1024  # with all headers
HANDLER_THREAD = "nf-prometheus-request"


def parse_address(target: int | str) -> tuple[str, int]:
    """The host and port of 9400, "9400", ":9400", "0.0.0.0:9400" or "[::1]:9400". The default host is
    loopback. Raises ValueError."""
    host, _, port = str(target).rpartition(":")
    if isinstance(target, bool) or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"prometheus={target!r} is not a port (9400), an address (127.0.0.1:9400) "
                         f"or a file (run{FILE_ENDING})")
    return host.strip("[]") or LOOPBACK, int(port)


class _Server(socketserver.TCPServer):
    """One thread per connection, and at most MAX_CONNECTIONS: a new connection closes the oldest. No
    connection lasts longer than CONNECTION_SECONDS, regardless of what it sends."""

    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], metrics: "PrometheusServer"):
        self.metrics = metrics
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, tuple[float, threading.Thread]] = {}  # oldest first
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def process_request(self, request: socket.socket, client_address: object) -> None:
        with self._lock:
            oldest = list(self._connections)[:len(self._connections) - MAX_CONNECTIONS + 1]
        self._end(oldest)
        thread = threading.Thread(target=self._handle, args=(request, client_address),
                                  name=HANDLER_THREAD, daemon=True)
        with self._lock:
            thread.start()  # before it is registered: it may fail
            self._connections[request] = time.monotonic(), thread

    def _handle(self, request: socket.socket, client_address: object) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:  # noqa: BLE001
            self.handle_error(request, client_address)
        finally:
            with self._lock:
                self._connections.pop(request, None)
            self.shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """A scraper that disconnects is not an error of the job."""

    def service_actions(self) -> None:
        """Called by serve_forever() several times per second."""
        limit = time.monotonic() - CONNECTION_SECONDS
        with self._lock:
            late = [request for request, (begin, _) in self._connections.items() if begin < limit]
        self._end(late)

    def _end(self, requests: list[socket.socket]) -> None:
        """Shuts the connections down. Their threads read the end of the stream and close them."""
        with self._lock:
            threads = [self._connections.pop(request)[1] for request in requests
                       if request in self._connections and _shut_down(request)]
        for thread in threads:
            thread.join(JOIN_SECONDS)

    def server_close(self) -> None:
        super().server_close()
        with self._lock:
            requests = list(self._connections)
        self._end(requests)


def _shut_down(request: socket.socket) -> bool:
    with contextlib.suppress(OSError):  # the peer has closed it already
        request.shutdown(socket.SHUT_RDWR)
    return True


class _Bounded:
    """The lines of a request, up to a total of MAX_REQUEST_BYTES."""

    def __init__(self, file: Any):
        self._file = file
        self._left = MAX_REQUEST_BYTES

    def readline(self, _: int = -1) -> bytes:
        line = self._file.readline(self._left + 1)
        self._left -= len(line)
        if self._left < 0:
            raise http.client.LineTooLong("request")
        return line

    def close(self) -> None:
        self._file.close()


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.rfile = _Bounded(self.rfile)  # type: ignore[assignment]

    def handle(self) -> None:
        try:
            super().handle()
        except http.client.LineTooLong:
            self.requestline, self.request_version, self.command = "", "HTTP/1.0", ""
            self.send_error(431)

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "only /metrics exists")
            return
        body = self.server.metrics.text().encode(errors="replace")
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """No-op: standard error belongs to the job."""


class PrometheusServer(Reader):
    """Serves http://HOST:PORT/metrics, on loopback by default. Port 0 selects a free port; `address` has
    it."""

    def __init__(self, target: int | str):
        self._metrics = Metrics()
        self._lock = threading.Lock()  # records arrive on one thread, requests on others
        self._server = _Server(parse_address(target), self)
        self.address = (str(self._server.server_address[0]), int(self._server.server_address[1]))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,),
                                        name="nf-prometheus", daemon=True)
        self._thread.start()

    def write(self, record: Record) -> None:
        with self._lock:
            self._metrics.add(record)

    def text(self) -> str:
        with self._lock:
            return self._metrics.text()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class PrometheusFile(Reader):
    """Rewrites `path` atomically after every drain."""

    def __init__(self, path: str | Path):
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._metrics = Metrics()

    def write(self, record: Record) -> None:
        self._metrics.add(record)

    def flush(self) -> None:
        write_atomic(self._path, self._metrics.text())
