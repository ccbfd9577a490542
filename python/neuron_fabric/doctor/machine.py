"""The limits of the machine."""

import os
import resource

from neuron_fabric.support import units

from .finding import Finding, ok, warning

SHARED = "/dev/shm"
# Eight ranks with buckets of 25 MB at two bits need 34 MB; NCCL and data loaders need some, too.
MIN_SHARED = 128_000_000
MIN_FILES = 1024


def check_shared_memory(folder: str = SHARED, minimum: int = MIN_SHARED) -> Finding:
    try:
        room = os.statvfs(folder)
    except OSError as error:
        return warning("shared memory", f"{folder}: {error.strerror}",
                       "Mount a tmpfs there; reducer=\"cxl\" needs it.")
    free = room.f_bavail * room.f_frsize
    finding = f"{units.byte_count(free)} free in {folder}"
    if free < minimum:
        return warning("shared memory", finding, "reducer=\"cxl\" may run out of space: free some, or start "
                       "the container with --shm-size=1g.")
    return ok("shared memory", finding)


def check_open_files(minimum: int = MIN_FILES) -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return ok("open files", "no limit")
    if soft < minimum:
        return warning("open files", f"at most {soft:,} per process",
                       f"Every peer needs some: `ulimit -n {minimum if hard < 0 else min(minimum, hard)}`.")
    return ok("open files", f"at most {soft:,} per process")
