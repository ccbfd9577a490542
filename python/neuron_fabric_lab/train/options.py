"""The options of a training run, and which runs are the same."""

import argparse
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuron_fabric.settings import ADMITS, REDUCERS, TOPOLOGIES

from .target import Target

# A run that differs in one of these is another run.
_IDENTITY = ("workload", "size", "route", "admit", "topology", "reducer", "ranks", "batch", "seed",
             "device", "steps", "epochs", "eval_every", "breach_at")


@dataclass(frozen=True)
class TrainOptions:
    """The options of `nf train`, which documents them."""

    workload: str
    out: Path
    route: str = "default"
    admit: str = "safe"
    size: str | None = None
    data: Path | None = None
    ranks: int = 4
    steps: int | None = None
    epochs: float | None = None
    batch: int | None = None
    seed: int = 1
    device: str = "cpu"
    eval_every: int | None = None
    target: Target | None = None
    seconds: float | None = None
    topology: str = "auto"
    reducer: str = "ranks"
    run_dir: Path | None = None
    record: Path | None = None
    breach_at: int | None = None
    json: bool = False

    def identity(self) -> dict[str, Any]:
        """As in JSON. A profile counts by its content, not its name; data by its folder."""
        identity = {name: getattr(self, name) for name in _IDENTITY}
        if (profile := self.profile) is not None:
            identity["profile"] = hashlib.sha256(profile.read_bytes()).hexdigest()
        if self.data is not None:
            identity["data"] = str(Path(self.data).resolve())
        return identity

    @property
    def profile(self) -> Path | None:
        kind, _, file = self.route.partition(":")
        return Path(file) if kind == "profile" and file else None


def positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above 0")
    return int(text)


def above_zero(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return value


def accuracy_target(text: str) -> Target:
    value = above_zero(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"an accuracy must be a fraction, not {text}")
    return Target("accuracy", value)


def loss_target(text: str) -> Target:
    return Target("loss", above_zero(text))


def natural(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 0")
    return int(text)


def add_job_options(parser: argparse.ArgumentParser, workloads: list[str]) -> None:
    """The options that `nf compare` has, too: what is trained."""
    parser.add_argument("workload", choices=workloads, metavar="WORKLOAD",
                        help=f"one of {', '.join(workloads)}")
    parser.add_argument("--size", help="the size of its model")
    parser.add_argument("--data", type=Path, metavar="FOLDER",
                        help="the folder of the images of cifar100 and cifar10, the sentences of sst2 or the "
                        "text of llama")
    parser.add_argument("--ranks", type=positive, default=TrainOptions.ranks, help="processes (%(default)s)")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=positive, help="steps of the run (as many as the workload needs)")
    length.add_argument("--epochs", type=above_zero, help="epochs of the run, instead of steps")
    parser.add_argument("--batch", type=positive, help="examples per rank and step (the workload's)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default=TrainOptions.device,
                        help="cuda: NCCL, BF16 autocast; ranks may share a GPU (%(default)s)")
    parser.add_argument("--admit", choices=ADMITS, default=TrainOptions.admit,
                        help="for profiles: low bits if safe, or only if useful (%(default)s)")
    parser.add_argument("--eval-every", type=positive, metavar="STEPS",
                        help="steps between evaluations (an epoch, or a tenth of the run)")
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--target", type=accuracy_target, metavar="ACCURACY",
                        help="a fraction; the result has the time to reach it")
    target.add_argument("--target-loss", type=loss_target, dest="target", metavar="LOSS",
                        help="the same for a loss on held-out data")


def parse(arguments: list[str], workloads: list[str]) -> TrainOptions:
    parser = argparse.ArgumentParser(
        prog="nf train",
        description="Trains a workload on one route, with ranks on this host, and writes the result to "
                    "DIR/result.json. If a run was stopped, the same command continues it.")
    add_job_options(parser, workloads)
    parser.add_argument("--route", default=TrainOptions.route,
                        help="plain: plain DDP; plain_bf16: with PyTorch's BF16 hook; profile:FILE; "
                        "default: the profile of nf.attach(model); any other: a codec for "
                        "all parameters, such as fp32, bf16, waterfill:4 (%(default)s)")
    parser.add_argument("--seed", type=natural, default=TrainOptions.seed,
                        help="the seed of weights and batches (%(default)s)")
    parser.add_argument("--seconds", type=above_zero,
                        help="stop after this many seconds; the run can be resumed (never)")
    parser.add_argument("--topology", choices=TOPOLOGIES, default=TrainOptions.topology,
                        help="the topology of low-bit sums (%(default)s)")
    parser.add_argument("--reducer", choices=REDUCERS, default=TrainOptions.reducer,
                        help="the reducer, as in nf.attach(reducer=...) (%(default)s)")
    parser.add_argument("--run-dir", type=Path, metavar="DIR", help="write telemetry, for nf report")
    parser.add_argument("--record", type=Path, metavar="FILE",
                        help="record the sizes of buckets, for nf replay")
    parser.add_argument("--breach-at", type=natural, metavar="STEP",
                        help="at this step, report that an external reducer rejects work: all fall back")
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="the folder of the result (nf-train/WORKLOAD-ROUTE-seedN)")
    parser.add_argument("--json", action="store_true", help="print the result only, without progress")
    values = vars(parser.parse_args(arguments))
    values["out"] = values["out"] or default_folder(values)
    options = TrainOptions(**values)
    if options.profile is not None and not options.profile.is_file():
        parser.error(f"argument --route: there is no profile {options.profile}")
    return options


def default_folder(values: dict[str, Any]) -> Path:
    return Path("nf-train") / f"{values['workload']}-{file_name(values['route'])}-seed{values['seed']}"


def file_name(route: str) -> str:
    """The name of a route in file names: profile_b for profile:a/b.json."""
    kind, _, rest = route.partition(":")
    if kind == "profile":
        return f"profile_{Path(rest).stem}"
    return route.replace(":", "_").replace("+", "_").replace("=", "")
