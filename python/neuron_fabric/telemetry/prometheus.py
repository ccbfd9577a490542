"""Telemetry for Prometheus: served over HTTP, or in a file for the textfile collector of
node_exporter."""

import socket
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ..files import write_whole
from .metrics import Metrics
from .stream import Reader, Record

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FILE_ENDING = ".prom"  # the only files that the collector looks at


def parse_address(target: int | str) -> tuple[str, int]:
    """9400, "9400", ":9400", "127.0.0.1:9400" or "[::1]:9400" as host and port; no host is all of
    them. Raises ValueError."""
    host, _, port = str(target).rpartition(":")
    if isinstance(target, bool) or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"prometheus={target!r} is no port (9400), no address (127.0.0.1:9400) "
                         f"and no file (run{FILE_ENDING})")
    return host.strip("[]"), int(port)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], metrics: "PrometheusServer"):
        self.metrics = metrics
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # HTTPServer's own asks the name service for this host, which may take seconds.
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: object, client_address: object) -> None:
        """A scraper that hung up is no concern of the job."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10  # seconds, for a scraper that says nothing

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "only /metrics is here")
            return
        body = self.server.metrics.text().encode(errors="replace")
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Standard error belongs to the job."""


class PrometheusServer(Reader):
    """Serves http://HOST:PORT/metrics. Port 0 takes any; `address` says which."""

    def __init__(self, target: int | str):
        self._metrics = Metrics()
        self._lock = threading.Lock()  # records come on one thread, requests on others
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
    """Rewrites `path` after every drain, in one piece."""

    def __init__(self, path: str | Path):
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._metrics = Metrics()

    def write(self, record: Record) -> None:
        self._metrics.add(record)

    def flush(self) -> None:
        write_whole(self._path, self._metrics.text())
