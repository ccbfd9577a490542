"""Which ranks share a machine."""

import itertools
import os
from collections.abc import Sequence
from pathlib import Path


def this_machine() -> str:
    """The same on ranks that can meet in shared memory: containers of one machine may not."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"boot {boot} with /dev/shm {os.stat('/dev/shm').st_dev}"
    except OSError as error:
        return f"unknown ({error})"


def ranks_of_a_machine(machines: Sequence[str]) -> int:
    """How many consecutive ranks every machine has, from the machines of all ranks; 0 where they have
    different numbers of them, or ranks take them in turn."""
    runs = [(machine, len(list(ranks))) for machine, ranks in itertools.groupby(machines)]
    sizes = {size for _, size in runs}
    are_whole = len({machine for machine, _ in runs}) == len(runs)
    return sizes.pop() if are_whole and len(sizes) == 1 else 0
