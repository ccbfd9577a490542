"""Environment variables that change the behaviour, and misspelled ones."""

import difflib
import socket
from collections.abc import Callable, Mapping

from neuron_fabric.settings import MODES

from .finding import Finding, failed, ok, warning

MAX_CHANNELS = 8
CUDA_CONNECTIONS = 8  # CUDA's default

# Reported if they are set.
REPORTED = ("NF_MODE", "NF_CHANNELS", "NF_RUN_DIR", "NF_FORCE_ISA", "NF_COMMIT", "NF_SHARED_MACHINE")
# Old names, by the new one.
DEPRECATED = {"NF_LANES": "NF_CHANNELS"}
# Used by commands among themselves, by the build and by tests.
QUIET = ("NF_COMMAND", "NF_CUDA", "NF_JOB_FOLDER", "NF_PROGRAM", "NF_PYTHON", "NF_SKIP_PACKAGES", "NF_TEST_ROUNDS",
         "NF_TEST_SEED", "NF_UPDATE_GOLDEN")
OTHERS = ("CUDA_VISIBLE_DEVICES",)


def _mode(value: str) -> Finding:
    if value not in MODES:
        return failed("NF_MODE", f"{value!r}: attach() will reject it",
                      f"Set it to one of {', '.join(MODES)}, or unset it.")
    if value == "on":
        return ok("NF_MODE", value)
    what = ("plain DDP reduces the gradients" if value == "off" else
            "gradients stay dense, low bits are only simulated")
    return warning("NF_MODE", f"{value}: {what}", "Unset it to use low bits.")


def _channels(value: str) -> Finding:
    if not value.isdecimal() or not 1 <= int(value) <= MAX_CHANNELS:
        return failed("NF_CHANNELS", f"{value!r}: attach() on a device will reject it",
                      f"Set it to a number from 1 to {MAX_CHANNELS}, or unset it.")
    return ok("NF_CHANNELS", f"{value}, on devices (default: 2)")


def _comm_blocking(value: str) -> Finding:
    if value != "1":
        return ok("NCCL_COMM_BLOCKING", value)
    return warning("NCCL_COMM_BLOCKING", "1: attach() waits forever for a rank that does not join",
                   "Unset it.")


def _connections(value: str) -> Finding:
    name = "CUDA_DEVICE_MAX_CONNECTIONS"
    if not value.isdecimal() or int(value) >= CUDA_CONNECTIONS:
        return ok(name, value)
    return warning(name, f"{value}: a transfer that waits for a peer may block kernels of other streams",
                   "Set it to 16, or unset it.")


def _host_id(value: str) -> Finding:
    return warning("NCCL_HOSTID", f"{value}: NCCL treats all processes with the same value as one host",
                   "Unset it, unless each rank has its own because ranks share a GPU.")


def _gloo_interface(value: str) -> Finding:
    known = [name for _, name in socket.if_nameindex()]
    missing = [name for name in value.split(",") if name and name not in known]
    if missing:
        return failed("GLOO_SOCKET_IFNAME", f"there is no interface {missing[0]!r}",
                      f"Set it to one of {', '.join(known)}, or unset it.")
    return ok("GLOO_SOCKET_IFNAME", value)


RULES: dict[str, Callable[[str], Finding]] = {
    "NF_MODE": _mode, "NF_CHANNELS": _channels, "CUDA_DEVICE_MAX_CONNECTIONS": _connections,
    "NCCL_COMM_BLOCKING": _comm_blocking,
    "NCCL_HOSTID": _host_id, "GLOO_SOCKET_IFNAME": _gloo_interface,
}


def _unknown(name: str) -> Finding:
    near = difflib.get_close_matches(name, (*REPORTED, *QUIET), n=1)
    return warning(name, "no such setting",
                   f"Did you mean {near[0]}?" if near else "Unset it, if it was meant for nf.")


def _deprecated(name: str) -> Finding:
    return warning(name, f"a deprecated name of {DEPRECATED[name]}", f"Set {DEPRECATED[name]} instead.")


def check_environment(environment: Mapping[str, str]) -> list[Finding]:
    found = []
    for name, value in sorted(environment.items()):
        if name in RULES:
            found.append(RULES[name](value))
        elif name in DEPRECATED:
            found.append(_deprecated(name))
        elif name in REPORTED or name in OTHERS or name.startswith("NCCL_"):
            found.append(ok(name, value))
        elif name.startswith("NF_") and name not in QUIET:
            found.append(_unknown(name))
    return found or [ok("environment", "no variable is set that changes the behaviour")]
