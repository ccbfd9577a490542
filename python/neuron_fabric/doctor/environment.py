"""Variables of the environment that change what happens, and those that were meant to."""

import difflib
import socket
from collections.abc import Callable, Mapping

from neuron_fabric.settings import MODES

from .finding import Finding, failed, ok, warning

MOST_LANES = 8

# Told where they are set.
TOLD = ("NF_MODE", "NF_LANES", "NF_RUN_DIR", "NF_FORCE_ISA", "NF_COMMIT", "NF_SHARED_MACHINE")
# Of commands among themselves, of the build and of tests.
QUIET = ("NF_COMMAND", "NF_JOB_FOLDER", "NF_PROGRAM", "NF_PYTHON", "NF_SKIP_PACKAGES", "NF_TEST_ROUNDS",
         "NF_TEST_SEED", "NF_UPDATE_GOLDEN")
OTHERS = ("CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME")


def _mode(value: str) -> Finding:
    if value not in MODES:
        return failed("NF_MODE", f"{value!r}: attach() will refuse it",
                      f"Set it to one of {', '.join(MODES)}, or unset it.")
    if value == "on":
        return ok("NF_MODE", value)
    what = ("plain DDP sends the gradients" if value == "off" else
            "gradients stay dense, low bits are tried beside")
    return warning("NF_MODE", f"{value}: {what}", "Unset it for low bits.")


def _lanes(value: str) -> Finding:
    if not value.isdecimal() or not 1 <= int(value) <= MOST_LANES:
        return failed("NF_LANES", f"{value!r}: attach() on a device will refuse it",
                      f"Set it to a number from 1 to {MOST_LANES}, or unset it.")
    return ok("NF_LANES", f"{value}, on devices (2 where it is not set)")


def _comm_blocking(value: str) -> Finding:
    if value != "1":
        return ok("NCCL_COMM_BLOCKING", value)
    return warning("NCCL_COMM_BLOCKING", "1: attach() waits for ever for a rank that does not come",
                   "Unset it.")


def _host_id(value: str) -> Finding:
    return warning("NCCL_HOSTID", f"{value}: NCCL takes all that have the same for one machine",
                   "Unset it, unless each rank has its own since they share a card.")


def _gloo_interface(value: str) -> Finding:
    known = [name for _, name in socket.if_nameindex()]
    missing = [name for name in value.split(",") if name and name not in known]
    if missing:
        return failed("GLOO_SOCKET_IFNAME", f"there is no interface {missing[0]!r}",
                      f"Name one of {', '.join(known)}, or unset it.")
    return ok("GLOO_SOCKET_IFNAME", value)


RULES: dict[str, Callable[[str], Finding]] = {
    "NF_MODE": _mode, "NF_LANES": _lanes, "NCCL_COMM_BLOCKING": _comm_blocking,
    "NCCL_HOSTID": _host_id, "GLOO_SOCKET_IFNAME": _gloo_interface,
}


def _unknown(name: str) -> Finding:
    near = difflib.get_close_matches(name, (*TOLD, *QUIET), n=1)
    return warning(name, "nothing reads it",
                   f"Did you mean {near[0]}?" if near else "Unset it, if it was meant for nf.")


def check_environment(environment: Mapping[str, str]) -> list[Finding]:
    found = []
    for name, value in sorted(environment.items()):
        if name in RULES:
            found.append(RULES[name](value))
        elif name in TOLD or name in OTHERS or name.startswith("NCCL_"):
            found.append(ok(name, value))
        elif name.startswith("NF_") and name not in QUIET:
            found.append(_unknown(name))
    return found or [ok("environment", "no variable is set that changes what happens")]
