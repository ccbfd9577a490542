"""`nf calibrate`, also `python -m neuron_fabric_lab.calibrate`: finds a profile for a workload, by trials
during its own training."""

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

NO_ROUTE = 3  # exit status: only dense meets the target
EPILOG = """\
Exits with 0 if routes were found, and with 3 if only full precision meets the target; the profile is
dense then. The folder --out keeps the results so far; --resume continues from them.
docs/calibration.md describes the measurements and the selection of routes."""


def number_from(minimum: int) -> Any:
    def parse(words: str) -> int:
        value = int(words)
        if value < minimum:
            raise argparse.ArgumentTypeError(f"{value} is less than {minimum}")
        return value

    return parse


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nf calibrate", epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Finds which gradients of a workload can use low bits, and writes a "
                    "profile.")
    parser.add_argument("workload", nargs="?", help="the workload to train, as for `nf train`")
    parser.add_argument("-o", "--profile", type=Path, metavar="FILE", help="the profile to write")
    parser.add_argument("--ranks", type=number_from(2), default=4, help="processes (4)")
    parser.add_argument("--size", help="the size of its model")
    parser.add_argument("--data", metavar="DIR", help="the folder of its data, if it needs one")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--batch", type=number_from(1),
                        help="examples per rank and step (the workload's)")
    parser.add_argument("--seed", type=number_from(0), default=1)
    parser.add_argument("--target", metavar="HARM",
                        help="the maximum increase of the loss over dense training: 0.02, or 1%%")
    parser.add_argument("--most-bytes", type=float, metavar="SHARE",
                        help="the maximum share of the dense bytes that ranks may contribute (1)")
    parser.add_argument("--candidates", metavar="ROUTES",
                        help="the routes to select from (by workload)")
    parser.add_argument("--steps", type=number_from(4), help="steps per branch")
    parser.add_argument("--dense-steps", type=number_from(1), help="steps before the branches")
    parser.add_argument("--repeats", type=number_from(2), help="initial number of repeats of a branch")
    parser.add_argument("--depth", type=number_from(1), help="parts of the backbone (1)")
    parser.add_argument("--out", type=Path, default=Path("nf-calibration"), metavar="DIR",
                        help="the folder for the results so far (nf-calibration)")
    parser.add_argument("--resume", action="store_true", help="continue from the results in --out")
    parser.add_argument("--no-keep", action="store_true",
                        help="save no checkpoints to resume from in --out, for large models")
    parser.add_argument("--update", type=Path, metavar="RUN_DIR",
                        help="no training: refine the profile -o with the records of a run with it")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no tables")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The settings of nf.Calibrator that were given."""
    given = {
        "target": args.target, "most_bytes": args.most_bytes, "branch_steps": args.steps,
        "dense_steps": args.dense_steps, "repeats": args.repeats, "depth": args.depth,
        "candidates": args.candidates and tuple(filter(None, args.candidates.split(",")))}
    return {name: value for name, value in given.items() if value is not None}


def check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Exits with 2 if the arguments are invalid."""
    if args.workload is None:
        parser.error("give a workload, or --update")
    launch.require_packages()
    from neuron_fabric.calibration.settings import CalibrationSettings, Target
    from neuron_fabric_lab.workloads import WORKLOADS

    if args.workload not in WORKLOADS:
        parser.error(f"unknown workload {args.workload}; known are {', '.join(WORKLOADS)}")
    if args.no_keep and args.resume:
        parser.error("--resume needs checkpoints, which --no-keep does not save")
    options = options_of(args)
    try:
        WORKLOADS[args.workload].check_size(args.size)
        if "target" in options:
            options["target"] = Target.parse(options["target"])
        CalibrationSettings(**options)
    except ValueError as error:
        parser.error(str(error))


def work(args: argparse.Namespace, arguments: list[str]) -> None:
    from neuron_fabric_lab.calibration_job import Request, calibrate

    calibrate(Request(
        workload=args.workload, size=args.size, data=args.data, device=args.device,
        seed=args.seed, batch=args.batch, out=args.out, resume=args.resume,
        keep=not args.no_keep, quiet=args.json, command=shlex.join(["nf", "calibrate", *arguments]),
        options=options_of(args)))


def show(args: argparse.Namespace, seconds: float) -> int:
    from neuron_fabric_lab.calibration_job import OUTCOME, PROFILE

    outcome = json.loads((args.out / OUTCOME).read_text(encoding="utf-8"))
    outcome["seconds"] = seconds
    if args.profile is not None:
        args.profile.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(args.profile, (args.out / PROFILE).read_text(encoding="utf-8"))
        outcome["profile"] = str(args.profile)
    if args.json:
        print(json.dumps(outcome))
    else:
        print(f"\n{text.tables(outcome)}\n\n{text.conclusion(outcome)}")
    return 0 if outcome["meets_target"] else NO_ROUTE


def refine(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    """--update."""
    from neuron_fabric.calibration.update import UpdateError, read_records, update

    if args.profile is None:
        parser.error("--update needs the profile to refine: -o FILE")
    try:
        profile = json.loads(args.profile.read_text(encoding="utf-8"))
        refined = update(profile, read_records(args.update), str(args.update))
    except (UpdateError, OSError, ValueError, KeyError, TypeError) as error:
        print(f"nf calibrate: {args.profile}: {error}", file=sys.stderr)
        return 1
    write_atomic(args.profile, json.dumps(refined, indent=1))
    change = refined["provenance"]["updates"][-1]
    print(json.dumps(change) if args.json else text.changes(change))
    return 0


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = make_parser()
    args = parser.parse_args(arguments)
    if args.worker:
        given = [word for word in arguments if word != "--worker"]
        return launch.run_rank(lambda: work(args, given))
    if args.update is not None:
        return refine(parser, args)
    started = time.monotonic()
    try:
        check(parser, args)
        if not args.json:
            print(f"starting {args.ranks} ranks", flush=True)
        launch.launch("neuron_fabric_lab.calibrate", ["--worker", *arguments], args.ranks, args.out)
        return show(args, time.monotonic() - started)
    except (launch.LaunchError, OSError) as error:
        print(f"nf calibrate: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, launch.Interrupt) as error:
        left = ("with --no-keep no results are saved" if args.no_keep else
                f"{args.out} has the results so far; the same command with --resume continues")
        print(f"\nnf calibrate: interrupted; {left}", file=sys.stderr)
        return 128 + getattr(error, "number", signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main())
