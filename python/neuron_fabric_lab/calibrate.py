"""`nf calibrate`, also `python -m neuron_fabric.calibrate`: a profile for a workload, from its own
training."""

import argparse
import json
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

from neuron_fabric.calibration import text
from neuron_fabric.ranks import launch
from neuron_fabric.support.files import write_atomic

NO_ROUTE = 3  # exit status: nothing but dense meets the target
EPILOG = """\
Exits with 0 where routes were found, and with 3 where nothing but full precision meets the target;
the profile is dense then. Work so far stays in the folder --out: --resume goes on from there.
docs/calibration.md says what is measured and how routes are chosen."""


def number_from(least: int) -> Any:
    def parse(words: str) -> int:
        value = int(words)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is less than {least}")
        return value

    return parse


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nf calibrate", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Finds out which gradients of a workload may travel at low bits, and writes a "
                    "profile.")
    parser.add_argument("workload", nargs="?", help="what to train, as `nf train` names it")
    parser.add_argument("-o", "--profile", type=Path, metavar="FILE", help="where the profile goes")
    parser.add_argument("--ranks", type=number_from(2), default=4, help="processes (4)")
    parser.add_argument("--size", help="of its model")
    parser.add_argument("--data", metavar="DIR", help="where its data is, if it needs some")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--batch", type=number_from(1),
                        help="examples a rank and step (the workload's)")
    parser.add_argument("--seed", type=number_from(0), default=1)
    parser.add_argument("--target", metavar="HARM",
                        help="the most that the loss may be above dense training's: 0.02, or 1%%")
    parser.add_argument("--most-bytes", type=float, metavar="SHARE",
                        help="the most of the dense bytes that ranks may contribute (1)")
    parser.add_argument("--candidates", metavar="ROUTES",
                        help="to choose from (by workload)")
    parser.add_argument("--steps", type=number_from(4), help="of a branch")
    parser.add_argument("--dense-steps", type=number_from(1), help="before the branches")
    parser.add_argument("--repeats", type=number_from(2), help="of a branch, at first")
    parser.add_argument("--depth", type=number_from(1), help="parts of the backbone (1)")
    parser.add_argument("--out", type=Path, default=Path("nf-calibration"), metavar="DIR",
                        help="for the work so far (nf-calibration)")
    parser.add_argument("--resume", action="store_true", help="go on from what --out holds")
    parser.add_argument("--no-keep", action="store_true",
                        help="of large models: leave no checkpoints, to resume from, in --out")
    parser.add_argument("--update", type=Path, metavar="RUN_DIR",
                        help="no training: refine the profile -o by what a run with it recorded")
    parser.add_argument("--json", action="store_true", help="one JSON object, no tables")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


def options_of(asked: argparse.Namespace) -> dict[str, Any]:
    """Those of nf.Calibrator that were given."""
    given = {
        "target": asked.target, "most_bytes": asked.most_bytes, "branch_steps": asked.steps,
        "dense_steps": asked.dense_steps, "repeats": asked.repeats, "depth": asked.depth,
        "candidates": asked.candidates and tuple(filter(None, asked.candidates.split(",")))}
    return {name: value for name, value in given.items() if value is not None}


def check(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> None:
    """Ends with status 2 where no rank could do what was asked for."""
    if asked.workload is None:
        parser.error("name a workload, or give --update")
    launch.require_packages()
    from neuron_fabric.calibration.settings import CalibrationSettings, Target
    from neuron_fabric_lab.workloads import WORKLOADS

    if asked.workload not in WORKLOADS:
        parser.error(f"there is no workload {asked.workload}; there are {', '.join(WORKLOADS)}")
    if asked.no_keep and asked.resume:
        parser.error("--resume goes on from what --no-keep does not leave")
    options = options_of(asked)
    try:
        WORKLOADS[asked.workload].check_size(asked.size)
        if "target" in options:
            options["target"] = Target.parse(options["target"])
        CalibrationSettings(**options)
    except ValueError as error:
        parser.error(str(error))


def work(asked: argparse.Namespace, arguments: list[str]) -> None:
    from neuron_fabric_lab.calibration_job import Request, calibrate

    calibrate(Request(
        workload=asked.workload, size=asked.size, data=asked.data, device=asked.device,
        seed=asked.seed, batch=asked.batch, out=asked.out, resume=asked.resume,
        keep=not asked.no_keep, quiet=asked.json, command=shlex.join(["nf", "calibrate", *arguments]),
        options=options_of(asked)))


def show(asked: argparse.Namespace, seconds: float) -> int:
    from neuron_fabric_lab.calibration_job import OUTCOME, PROFILE

    outcome = json.loads((asked.out / OUTCOME).read_text(encoding="utf-8"))
    outcome["seconds"] = seconds
    if asked.profile is not None:
        asked.profile.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(asked.profile, (asked.out / PROFILE).read_text(encoding="utf-8"))
        outcome["profile"] = str(asked.profile)
    if asked.json:
        print(json.dumps(outcome))
    else:
        print(f"\n{text.tables(outcome)}\n\n{text.conclusion(outcome)}")
    return 0 if outcome["meets_target"] else NO_ROUTE


def refine(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> int:
    """--update."""
    from neuron_fabric.calibration.update import UpdateError, read_records, update

    if asked.profile is None:
        parser.error("--update needs the profile that it should refine: -o FILE")
    try:
        profile = json.loads(asked.profile.read_text(encoding="utf-8"))
        refined = update(profile, read_records(asked.update), str(asked.update))
    except (UpdateError, OSError, ValueError, KeyError, TypeError) as error:
        print(f"nf calibrate: {asked.profile}: {error}", file=sys.stderr)
        return 1
    write_atomic(asked.profile, json.dumps(refined, indent=1))
    told = refined["provenance"]["updates"][-1]
    print(json.dumps(told) if asked.json else text.changes(told))
    return 0


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = make_parser()
    asked = parser.parse_args(arguments)
    if asked.worker:
        given = [word for word in arguments if word != "--worker"]
        return launch.run_rank(lambda: work(asked, given))
    if asked.update is not None:
        return refine(parser, asked)
    started = time.monotonic()
    try:
        check(parser, asked)
        if not asked.json:
            print(f"starting {asked.ranks} ranks", flush=True)
        launch.launch("neuron_fabric_lab.calibrate", ["--worker", *arguments], asked.ranks, asked.out)
        return show(asked, time.monotonic() - started)
    except (launch.LaunchError, OSError) as error:
        print(f"nf calibrate: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, launch.Interrupt) as error:
        left = ("with --no-keep nothing is left of the work so far" if asked.no_keep else
                f"{asked.out} keeps the work so far, and the same command with --resume goes on")
        print(f"\nnf calibrate: interrupted; {left}", file=sys.stderr)
        return 128 + getattr(error, "number", signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main())
