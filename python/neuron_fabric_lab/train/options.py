"""What can be asked of a training run, and which runs are the same."""

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
    """Those of `nf train`, which documents them."""

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
        """As JSON has it. Of a profile its content counts, not its name; of data the folder."""
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
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number above 0")
    return int(text)


def above_zero(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is no number above 0")
    return value


def accuracy_target(text: str) -> Target:
    value = above_zero(text)
    if value > 1:
        raise argparse.ArgumentTypeError(f"an accuracy is a fraction, not {text}")
    return Target("accuracy", value)


def loss_target(text: str) -> Target:
    return Target("loss", above_zero(text))


def natural(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number from 0 on")
    return int(text)


def add_job_options(parser: argparse.ArgumentParser, workloads: list[str]) -> None:
    """Those that say what is trained, which `nf compare` has, too."""
    parser.add_argument("workload", choices=workloads, metavar="WORKLOAD",
                        help=f"one of {', '.join(workloads)}")
    parser.add_argument("--size", help="of its model")
    parser.add_argument("--data", type=Path, metavar="FOLDER",
                        help="with the images of cifar100 and cifar10 or the sentences of sst2")
    parser.add_argument("--ranks", type=positive, default=TrainOptions.ranks, help="processes (%(default)s)")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=positive, help="(what the workload needs to learn)")
    length.add_argument("--epochs", type=above_zero, help="instead of steps")
    parser.add_argument("--batch", type=positive, help="examples a rank and step (the workload's)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default=TrainOptions.device,
                        help="cuda: NCCL, matrices in BF16; ranks may share a card (%(default)s)")
    parser.add_argument("--admit", choices=ADMITS, default=TrainOptions.admit,
                        help="of profiles: wherever safe, or only where it pays (%(default)s)")
    parser.add_argument("--eval-every", type=positive, metavar="STEPS",
                        help="(an epoch, or a tenth of the run)")
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--target", type=accuracy_target, metavar="ACCURACY",
                        help="a fraction: what it took to get there is reported")
    target.add_argument("--target-loss", type=loss_target, dest="target", metavar="LOSS",
                        help="the same for a loss, of data held back")


def parse(arguments: list[str], workloads: list[str]) -> TrainOptions:
    parser = argparse.ArgumentParser(
        prog="nf train",
        description="Trains a workload along one route, in ranks of this machine, and keeps what came "
                    "of it in DIR/result.json. A run that was stopped goes on when the same command "
                    "is given again.")
    add_job_options(parser, workloads)
    parser.add_argument("--route", default=TrainOptions.route,
                        help="plain: DDP alone; plain_bf16: with PyTorch's BF16 hook; profile:FILE; "
                        "default: the profile of nf.attach(model); any other: a codec for "
                        "everything, as fp32, bf16, waterfill:4 (%(default)s)")
    parser.add_argument("--seed", type=natural, default=TrainOptions.seed,
                        help="of weights and batches (%(default)s)")
    parser.add_argument("--seconds", type=above_zero,
                        help="stop after so many, to be resumed (never)")
    parser.add_argument("--topology", choices=TOPOLOGIES, default=TrainOptions.topology,
                        help="of low-bit sums (%(default)s)")
    parser.add_argument("--reducer", choices=REDUCERS, default=TrainOptions.reducer,
                        help="who adds: nf.attach(reducer=...) (%(default)s)")
    parser.add_argument("--run-dir", type=Path, metavar="DIR", help="telemetry, for nf report")
    parser.add_argument("--record", type=Path, metavar="FILE",
                        help="keep the sizes of buckets, for nf replay")
    parser.add_argument("--breach-at", type=natural, metavar="STEP",
                        help="at this step a reducer outside the ranks refuses work: all fall back")
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="(nf-train/WORKLOAD-ROUTE-seedN)")
    parser.add_argument("--json", action="store_true", help="print the result, and no progress")
    values = vars(parser.parse_args(arguments))
    values["out"] = values["out"] or default_folder(values)
    options = TrainOptions(**values)
    if options.profile is not None and not options.profile.is_file():
        parser.error(f"argument --route: there is no profile {options.profile}")
    return options


def default_folder(values: dict[str, Any]) -> Path:
    return Path("nf-train") / f"{values['workload']}-{file_name(values['route'])}-seed{values['seed']}"


def file_name(route: str) -> str:
    """Of a route, for files: profile:a/b.json is profile_b."""
    kind, _, rest = route.partition(":")
    if kind == "profile":
        return f"profile_{Path(rest).stem}"
    return route.replace(":", "_").replace("+", "_").replace("=", "")
