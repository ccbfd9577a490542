"""Forks Python programs from a process that has PyTorch loaded, but not this package; forked_python.py
starts it and its clients.

A connection to the socket starts one program. It receives the standard streams of the client, the length
of the request, and the request: arguments, environment and folder. Further bytes are signals for the
program. It answers with the exit code of the program. A program whose client is gone is killed.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import runpy
import selectors
import signal
import socket
import struct
import sys

LOADED = ["torch", "torch.distributed.run", "torch.nn.parallel", "torch._dynamo", "torch.distributed.fsdp",
          "torch.distributed.checkpoint.state_dict", "sklearn.datasets"]


class Client:
    """A connection whose program runs."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.connection, self.pid = connection, pid
        self.ended = os.pidfd_open(pid)

    def forward_signals(self) -> bool:
        """Kills the program if the client is gone, and returns whether it is."""
        received = self.connection.recv(64)
        for number in received or [signal.SIGKILL]:
            os.kill(self.pid, number)
        return not received

    def answer(self) -> None:
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        with contextlib.suppress(OSError):  # the client is gone
            self.connection.sendall(struct.pack("i", code))
        self.connection.close()
        os.close(self.ended)


def received(connection: socket.socket) -> tuple[dict, list[int]]:
    """The request, and the standard streams."""
    head, streams, *_ = socket.recv_fds(connection, 4, 3)
    head += connection.recv(4 - len(head), socket.MSG_WAITALL) if len(head) < 4 else b""
    return json.loads(connection.recv(struct.unpack("I", head)[0], socket.MSG_WAITALL)), streams


def become(request: dict, streams: list[int]) -> list[str]:
    """Takes over the signals that are ignored, the streams, the environment and the folder. Returns the
    arguments."""
    os.setsid()
    for number, is_handled in request["signals"].items():
        signal.signal(int(number), signal.SIG_DFL if is_handled else signal.SIG_IGN)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = dict.fromkeys([*filter(None, given), *sys.path])
    return request["arguments"]


def serve(path: str) -> list[str]:
    """Returns in the programs only. Ends when standard input ends, and kills them."""
    ready = selectors.DefaultSelector()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    ready.register(listener, selectors.EVENT_READ)
    ready.register(sys.stdin, selectors.EVENT_READ)
    clients: dict[int, Client] = {}
    print("ready", flush=True)
    while True:
        for key, _ in ready.select():
            if key.fileobj is sys.stdin:
                for client in clients.values():
                    os.kill(client.pid, signal.SIGKILL)
                sys.exit(0)
            if key.fileobj is listener:
                connection = listener.accept()[0]
                request, streams = received(connection)
                pid = os.fork()
                if pid == 0:
                    for held in [client.ended for client in clients.values()]:
                        os.close(held)
                    for held in [listener, connection, *(client.connection for client in clients.values())]:
                        held.close()
                    ready.close()
                    return become(request, streams)
                for stream in streams:
                    os.close(stream)
                client = clients[pid] = Client(connection, pid)
                ready.register(connection, selectors.EVENT_READ, client)
                ready.register(client.ended, selectors.EVENT_READ, client)
                continue
            client = key.data
            if client.pid not in clients:  # it has ended in this round
                continue
            if key.fileobj is client.connection:
                if client.forward_signals():
                    ready.unregister(client.connection)
                continue
            with contextlib.suppress(KeyError):
                ready.unregister(client.connection)
            ready.unregister(client.ended)
            client.answer()
            del clients[client.pid]


def run(arguments: list[str]) -> None:
    """As `python arguments`. Knows the options -c, -m, -P and -u."""
    option, folder = "", None
    while option not in ("-c", "-m") and arguments[0].startswith("-"):
        option = arguments.pop(0)
        assert option in ("-c", "-m", "-P", "-u"), option
        if option == "-u":
            sys.stdout.reconfigure(write_through=True)
        if option == "-P":
            folder = []
    is_script = option not in ("-c", "-m")
    if folder is None:
        folder = [os.path.dirname(os.path.abspath(arguments[0])) if is_script else os.getcwd()]
    sys.path[:0] = folder
    sys.argv = arguments
    if option == "-c":
        exec(compile(arguments[0], "<string>", "exec"), {"__name__": "__main__"})
    elif option == "-m":
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(arguments[0], run_name="__main__")


resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
sys.path.pop(0)  # the folder of this file
for module in LOADED:
    with contextlib.suppress(ImportError):  # its test is skipped, or reports it
        importlib.import_module(module)
gc.freeze()  # otherwise every program copies all of it at exit
del module
run(serve(sys.argv[1]))
