"""Everything that can be set about an attached model, checked before anything is done with it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from neuron_fabric.telemetry import Reader

MODES = ("on", "shadow", "off")
ADMITS = ("useful", "safe")
TOPOLOGIES = ("auto", "direct", "ring", "tree", "halving_doubling", "hierarchical")
REDUCERS = ("ranks", "cxl")
MOST_SECONDS = 1e9  # of a timeout: clocks count nanoseconds in 64 bits


def _one_of(what: str, value: object, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError(f"{what} is one of {', '.join(known)}, not {value!r}")
    return str(value)


def is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def is_timeout(value: object) -> bool:
    return is_positive(value) and value <= MOST_SECONDS


def _check_group_size(size: object, topology: str) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ValueError(f"group_size is a number of ranks, not {size!r}")
    if topology not in ("auto", "hierarchical"):
        raise ValueError(f"topology={topology!r} has no groups: leave group_size out, or take "
                         "topology='hierarchical'")


@dataclass
class Settings:
    """The options of nf.attach(), which documents them."""

    profile: object = None
    route: str | None = None
    admit: str = "useful"
    link_gbps: float | None = None
    run_dir: str | os.PathLike | None = None
    topology: str = "auto"
    group_size: int | None = None
    reducer: str = "ranks"
    seed: int = 0
    timeout: float | None = None
    tensorboard: str | os.PathLike | None = None
    prometheus: int | str | None = None
    record: str | os.PathLike | None = None
    record_lines: str | os.PathLike | None = None
    readers: Sequence[Reader] = ()
    deterministic: bool = False
    decisions: str | os.PathLike | None = None

    def __post_init__(self) -> None:
        if self.route is not None and not isinstance(self.route, str):
            raise TypeError(f"route is a codec as it is spelled, 'waterfill:4', not {self.route!r}")
        _one_of("admit", self.admit, ADMITS)
        _one_of("topology", self.topology, TOPOLOGIES)
        _one_of("reducer", self.reducer, REDUCERS)
        if self.group_size is not None:
            _check_group_size(self.group_size, self.topology)
        if self.link_gbps is not None and not is_positive(self.link_gbps):
            raise ValueError(f"link_gbps is a speed in Gb/s, not {self.link_gbps!r}")
        if self.timeout is not None and not is_timeout(self.timeout):
            raise ValueError(f"timeout is a number of seconds, not {self.timeout!r}; the most is "
                             f"{MOST_SECONDS:.0f}")
        if not isinstance(self.seed, int) or not 0 <= self.seed < 1 << 64:
            raise ValueError(f"seed is a number from 0 to 2**64 - 1, not {self.seed!r}")
        if self.run_dir is not None and not isinstance(self.run_dir, (str, os.PathLike)):
            raise TypeError(f"run_dir is a folder, not {self.run_dir!r}")
        if self.record is not None and not isinstance(self.record, (str, os.PathLike)):
            raise TypeError(f"record is a file, not {self.record!r}")
        if self.record_lines is not None:
            if not isinstance(self.record_lines, (str, os.PathLike)):
                raise TypeError(f"record_lines is a file, not {self.record_lines!r}")
            if self.reducer != "cxl":
                raise ValueError("record_lines keeps the lines of a memory-side reducer: attach with "
                                 "reducer='cxl', or leave it out")
        if not isinstance(self.deterministic, bool):
            raise TypeError(f"deterministic is True or False, not {self.deterministic!r}")
        if self.decisions is not None and not isinstance(self.decisions, (str, os.PathLike)):
            raise TypeError(f"decisions is a file, not {self.decisions!r}")
        if self.deterministic and self.decisions is None:
            self.admit = "safe"
        for reader in self.readers:
            if not isinstance(reader, Reader):
                raise TypeError(f"readers are neuron_fabric.telemetry.Reader, not {reader!r}")
        if self.run_dir is None:
            self.run_dir = os.environ.get("NF_RUN_DIR") or None

    def to_core(
        self, profile: str, timeout: float, group_size: int, shared_reducer: str,
        decisions: list | None = None,
    ) -> dict[str, object]:
        """group_size: of ranks that share a machine; 0 where that is not known.
        shared_reducer: its name, which no other job of this machine has; empty without one.
        decisions: to replay; None if measured times decide."""
        return {
            "profile": profile,
            "mode": mode(),
            "admit": "forced" if self.route is not None else self.admit,
            "topology": self.topology,
            "group": group_size,
            "shared_reducer": shared_reducer,
            "record_lines": os.fspath(self.record_lines) if self.record_lines else "",
            "link_gbps": self.link_gbps,
            "decisions": decisions,
            "seed": self.seed,
            "timeout": timeout,
        }


def mode() -> str:
    """NF_MODE: changes a job without touching its code."""
    return _one_of("the environment variable NF_MODE", os.environ.get("NF_MODE", "on"), MODES)
