"""Which ranks share a host."""

import itertools
import os
from collections.abc import Sequence
from pathlib import Path


def host_id() -> str:
    """An identifier, equal on ranks that can share memory. Containers of one host may have different ones."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"boot {boot} with /dev/shm {os.stat('/dev/shm').st_dev}"
    except OSError as error:
        return f"unknown ({error})"


def ranks_per_host(hosts: Sequence[str]) -> int:
    """The number of consecutive ranks on each host, given the host of every rank. 0 if hosts have
    different numbers of ranks, or if the ranks of a host are not consecutive."""
    runs = [(host, len(list(ranks))) for host, ranks in itertools.groupby(hosts)]
    sizes = {size for _, size in runs}
    are_consecutive = len({host for host, _ in runs}) == len(runs)
    return sizes.pop() if are_consecutive and len(sizes) == 1 else 0
