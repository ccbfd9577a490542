"""The settings of nf.attach(): one table of names, defaults, types, allowed values and descriptions.

The fields of Settings are that table. Validation, the docstring of attach() and the comparison between
ranks are derived from it; python/tests/settings_test.py compares it with the signature of attach() and
with the table in docs/runtime.md.
"""

import dataclasses
import os
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from neuron_fabric.telemetry import Reader

MODES = ("on", "shadow", "off")
ADMITS = ("useful", "safe")
# All topologies of the core but endpoint, which is for measurements. Not read from the extension, which
# needs PyTorch; python/tests/topology_test.py compares them.
TOPOLOGIES = ("auto", "direct", "ring", "tree", "halving_doubling", "hierarchical")
REDUCERS = ("ranks", "cxl")
WITHIN_REPLICAS = ("dense", "low_bit")
MAX_TIMEOUT_SECONDS = 1e9  # clocks count nanoseconds in 64 bits


@dataclass(frozen=True)
class Setting:
    """One row of the table. The default is always valid, as is None if it is the default."""

    name: str
    default: Any
    type: Any  # the annotation
    values: str  # the allowed values in words, which complete "NAME must be ..."
    help: str  # one sentence or more, for the docs
    check: Callable[[Any], bool] | None  # None: checked where it is used
    error: type[Exception]  # raised if the check fails
    is_agreed: bool  # whether all ranks must have the same value

    def validate(self, value: object) -> None:
        if self.check is None or (value is None and self.default is None) or self.check(value):
            return
        raise self.error(f"{self.name} must be {self.values}, not {value!r}")


def is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def is_timeout(value: object) -> bool:
    return is_positive(value) and value <= MAX_TIMEOUT_SECONDS


def _is_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike))


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _row(default: Any, values: str, help: str, check: Callable[[Any], bool] | None = None,
         error: type[Exception] = ValueError, agreed: bool = False) -> Any:
    return dataclasses.field(default=default, metadata={
        "values": values, "help": help, "check": check, "error": error, "is_agreed": agreed})


def _choice(known: tuple[str, ...], help: str) -> Any:
    """One of several words; the first is the default."""
    return _row(known[0], f"one of {', '.join(known)}", help, known.__contains__, agreed=True)


def _path(values: str, help: str) -> Any:
    return _row(None, values, help, _is_path, TypeError)


@dataclass
class Settings:
    """The settings of one attached model. Raises ValueError or TypeError if one of them is not valid."""

    profile: object = _row(
        None, "a path, a dict or an nf.Profile",
        "The routes of each region. Without a profile, norms and biases stay dense and the other "
        "parameters use waterfill:5 after 3 steps, under the monitor.")
    route: str | None = _row(
        None, "the name of a route, such as 'waterfill:4'",
        "Forces one route on every parameter from the first step, without admission.",
        lambda value: isinstance(value, str), TypeError, agreed=True)
    admit: str = _choice(
        ADMITS, "useful: low bits if they are safe and predicted to shorten the step. safe: low bits if "
        "they are safe.")
    link_gbps: float | None = _row(
        None, "a positive number of Gb/s",
        "The link speed for predictions, instead of the measured one.", is_positive, agreed=True)
    run_dir: str | os.PathLike | None = _path(
        "a folder",
        "Rank 0 writes the records of the run there, for nf report. The default is the environment "
        "variable NF_RUN_DIR.")
    topology: str = _choice(
        TOPOLOGIES, "How ranks reduce low-bit gradients. hierarchical reduces in full precision within host "
        "groups and at low bits between them. auto measures at attach if other decisions depend on measured "
        "times too.")
    group_size: int | None = _row(
        None, "a positive number of ranks",
        "The number of consecutive ranks of a host group, for hierarchical. Detected by default, if all "
        "hosts have the same number of ranks.",
        lambda value: _is_int(value) and value > 0, agreed=True)
    within_replicas: str = _choice(
        WITHIN_REPLICAS, "HSDP only. dense: FSDP's own reduce-scatter within a replica. low_bit: at low bits, "
        "too, for slow links within replicas.")
    reducer: str = _choice(
        REDUCERS, "cxl: the model of a memory-side reducer in shared memory sums g_binary and g_ternary "
        "(docs/cxl.md); all ranks must be on one host.")
    seed: int = _row(
        0, "a number from 0 to 2**64 - 1", "The seed of all random draws.",
        lambda value: isinstance(value, int) and 0 <= value < 1 << 64, agreed=True)
    timeout: float | None = _row(
        None, f"a positive number of seconds up to {MAX_TIMEOUT_SECONDS:.0f}",
        "How long to wait for a peer. The default is the timeout of the model's process group.", is_timeout)
    scaler: "torch.amp.GradScaler | None" = _row(  # noqa: F821  this module does not import PyTorch
        None, "a torch.amp.GradScaler",
        "Its scale is removed from error feedback and norms.",
        lambda value: hasattr(value, "get_scale"), TypeError)
    tensorboard: Any = _row(
        None, "a folder or a SummaryWriter", "Rank 0 writes TensorBoard scalars there.")
    prometheus: int | str | None = _row(
        None, "a port, host:port or a file",
        "Rank 0 serves Prometheus metrics there, or writes them to the file.")
    record: str | os.PathLike | None = _path(
        "a file", "Rank 0 records the sizes of all buckets there, for nf replay.")
    record_lines: str | os.PathLike | None = _path(
        "a file",
        "With reducer='cxl', rank 0 records the first 100,000 cache lines of gradients there, for the RTL "
        "(docs/rtl.md).")
    readers: Sequence[Reader] = _row(
        (), "a sequence of neuron_fabric.telemetry.Reader",
        "Additional readers of the telemetry of this rank (docs/telemetry.md).",
        lambda value: isinstance(value, Iterable) and all(isinstance(one, Reader) for one in value),
        TypeError)
    deterministic: bool = _row(
        False, "True or False",
        "No decision depends on measured times, so two runs with one seed have the same bits: low bits if "
        "they are safe, or the decisions of the file `decisions`.",
        lambda value: isinstance(value, bool), TypeError, agreed=True)
    decisions: str | os.PathLike | None = _path(
        "a file",
        "Decisions that depend on measured times. If the file exists, all ranks replay it; otherwise rank 0 "
        "records it.")

    def __post_init__(self) -> None:
        for setting in TABLE:
            setting.validate(getattr(self, setting.name))
        if self.group_size is not None and self.topology not in ("auto", "hierarchical"):
            raise ValueError(f"topology={self.topology!r} has no host groups: omit group_size, or use "
                             "topology='hierarchical'")
        if self.record_lines is not None and self.reducer != "cxl":
            raise ValueError("record_lines records the lines of a memory-side reducer: attach with "
                             "reducer='cxl', or omit record_lines")
        if self.deterministic and self.decisions is None:
            self.admit = "safe"
        if self.run_dir is None:
            self.run_dir = os.environ.get("NF_RUN_DIR") or None

    def _measures_topology(self) -> bool:
        """Whether measured times choose the topology. They do if they make other decisions too, so that runs
        without such decisions have the same bits."""
        return (self.topology == "auto" and self.admit == "useful" and self.route is None
                and self.reducer == "ranks")

    def agreed(self) -> dict[str, object]:
        """The settings that must be the same on all ranks."""
        return {setting.name: getattr(self, setting.name) for setting in TABLE if setting.is_agreed}

    def to_core(
        self, profile: str, timeout: float, group_size: int, shared_reducer: str,
        bucket_values: int = 0, replayed: "Decisions | None" = None,  # noqa: F821  its module imports PyTorch
    ) -> dict[str, object]:
        """The options of _C.Runtime.

        group_size: ranks per host; 0 if unknown.
        shared_reducer: its name, unique among the jobs of this host; empty without one.
        bucket_values: about how many values a bucket has.
        replayed: the decisions to replay; None if measured times decide.
        """
        topology = self.topology
        if topology == "auto" and replayed is not None:
            topology = replayed.topology or topology
        return {
            "profile": profile,
            "mode": mode(),
            "admit": "forced" if self.route is not None else self.admit,
            "topology": topology,
            "measured_bucket_values": bucket_values if self._measures_topology() else 0,
            "group": group_size,
            "shared_reducer": shared_reducer,
            "record_lines": os.fspath(self.record_lines) if self.record_lines else "",
            "link_gbps": self.link_gbps,
            "decisions": None if replayed is None else replayed.changes,
            "seed": self.seed,
            "timeout": timeout,
        }


TABLE = tuple(Setting(name=field.name, default=field.default, type=field.type, **field.metadata)
              for field in dataclasses.fields(Settings))


def mode() -> str:
    """The environment variable NF_MODE, which changes the mode of a job without a change to its code."""
    value = os.environ.get("NF_MODE", "on")
    if value not in MODES:
        raise ValueError(f"the environment variable NF_MODE must be one of {', '.join(MODES)}, not "
                         f"{value!r}")
    return value


def help_text() -> str:
    """The table as lines of a docstring."""
    return "\n".join(
        textwrap.fill(f"{setting.name}: {setting.values}. {setting.help}", 100,
                      initial_indent="    ", subsequent_indent="        ", break_on_hyphens=False)
        for setting in TABLE)
