"""A Python interpreter that starts with PyTorch loaded, for tests of commands and examples.

Programs that import PyTorch take seconds to start, and tests of `nf train` or torchrun start many of them.
executable() is a program with the arguments of `python`. It runs them in a process that is forked from a
server with PyTorch loaded; streams, environment, folder, signals and exit status are those of a new process.
torchrun starts its ranks with it if PYTHON_EXEC names it. What a module does when it is first imported
is not tested.
"""

import atexit
import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SERVER = Path(__file__).parent / "workers" / "python_server.py"

# Starts within milliseconds: isolated, without site packages.
CLIENT = """#!{python} -IS
import json, os, signal, socket, struct, sys

server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
signals = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1]
request = json.dumps({{
    "arguments": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd(),
    "signals": {{number: signal.getsignal(number) is not signal.SIG_IGN for number in signals}}}}).encode()
socket.send_fds(server, [struct.pack("I", len(request))], [0, 1, 2])
server.sendall(request)
for number in signals:
    signal.signal(number, lambda number, _: server.send(bytes([number])))
answer = server.recv(4, socket.MSG_WAITALL)
code = struct.unpack("i", answer)[0] if answer else 70
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@functools.cache
def executable() -> str:
    """The path of the interpreter; starts the server."""
    folder = tempfile.TemporaryDirectory(prefix="nf-python-")
    path, program = f"{folder.name}/socket", Path(folder.name, "python")
    server = subprocess.Popen(
        [sys.executable, SERVER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1",
                          "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)})
    assert server.stdout.readline() == b"ready\n"
    program.write_text(CLIENT.format(python=sys.executable, path=path))
    program.chmod(0o755)

    @atexit.register
    def close() -> None:
        server.stdin.close()
        server.wait()
        folder.cleanup()

    return str(program)


def environment() -> dict[str, str]:
    """For a process that starts ranks with torchrun."""
    return {"PYTHON_EXEC": executable()}
