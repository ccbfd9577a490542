"""`nf compare WORKLOAD --routes A,B,...`: trains, then tells which routes are as good."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neuron_fabric.launch import Interrupt, LaunchError, require_packages

DEFAULT_ROUTES = "fp32,bf16,g_binary,waterfill:4,default"
PASSED_ON = ("size", "data", "ranks", "steps", "epochs", "batch", "device", "admit", "eval_every")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    from neuron_fabric.train.options import add_job_options, positive
    from neuron_fabric.workloads import WORKLOADS

    parser = argparse.ArgumentParser(
        prog="nf compare",
        description="Trains a workload along several routes from the same seeds, and compares accuracy, "
                    "bytes and time. Finished runs are kept: the same command goes on where it was.")
    add_job_options(parser, list(WORKLOADS))
    parser.add_argument("--routes", default=DEFAULT_ROUTES, metavar="A,B,...",
                        help=f"as nf train takes them ({DEFAULT_ROUTES}); FP32 and BF16 join where they "
                        "miss")
    parser.add_argument("--baseline", metavar="ROUTE",
                        help="the one others differ from; then no other joins (fp32 or plain)")
    parser.add_argument("--seeds", type=positive, default=3, help="runs of a route (3)")
    parser.add_argument("--side-by-side", type=positive, default=1, metavar="K",
                        help="runs at the same time, which share the machine (1)")
    parser.add_argument("--table", action="store_true",
                        help="train nothing: compare the runs that are there")
    parser.add_argument("--out", type=Path, metavar="DIR", help="(nf-compare/WORKLOAD)")
    parser.add_argument("--json", action="store_true", help="one JSON object a run, no table")
    options = parser.parse_args(arguments)
    options.out = options.out or Path("nf-compare") / options.workload
    return options


def chosen_routes(options: argparse.Namespace) -> list[str]:
    """Those asked for, and the baselines."""
    from .figures import BF16, FULL_PRECISION, first_of

    routes = [route.strip() for route in options.routes.split(",") if route.strip()]
    if options.baseline is not None:
        joining = [] if options.baseline in routes else [options.baseline]
    else:
        joining = [names[0] for names in (FULL_PRECISION, BF16) if first_of(names, routes) is None]
    return list(dict.fromkeys(joining + routes))


def passed_on(options: argparse.Namespace) -> list[str]:
    words = [options.workload]
    for name in PASSED_ON:
        if (value := getattr(options, name)) is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return words


def check(options: argparse.Namespace, jobs: Sequence[Any]) -> None:
    """Raises ValueError on a route or size that is none, before anything is trained."""
    from neuron_fabric.train.routes import check_route
    from neuron_fabric.workloads import WORKLOADS

    sizes = WORKLOADS[options.workload].sizes
    if options.size is not None and options.size not in sizes:
        raise ValueError(f"{options.workload} has no size {options.size}; it has {', '.join(sizes)}")
    for job in jobs:
        check_route(job.options())


def show(options: argparse.Namespace, results: list[dict[str, Any]]) -> int:
    from . import figures, words

    routes = list(dict.fromkeys(result["route"] for result in results))
    baseline = options.baseline or figures.first_of(figures.FULL_PRECISION, routes)
    for result in results:
        if result["diverged"] and result["route"] == baseline:
            print(f"nf compare: {options.workload} diverges along {baseline} itself (seed "
                  f"{result['seed']}, step {result['steps']}): nothing can be compared with it",
                  file=sys.stderr)
            return 1
    target = options.target or figures.usual_target(results)
    lines = words.json_lines(results, target)
    (options.out / "rows.jsonl").write_text(lines + "\n")
    rows = figures.figures(results, baseline, target)
    text = "\n\n".join(filter(None, [words.table(rows), words.legend(baseline, target),
                                     "\n".join(words.beside_bf16(rows) + words.fallbacks(results))]))
    (options.out / "table.txt").write_text(text + "\n")
    print(lines if options.json else f"\n{text}")
    draw(options, results, target)
    return 0


def draw(options: argparse.Namespace, results: list[dict[str, Any]], target: float | None) -> None:
    from . import pictures

    files = [options.out / f"accuracy.{kind}" for kind in ("svg", "png")]
    title = f"{options.workload}, {results[0]['ranks']} ranks, {options.seeds} seeds"
    try:
        pictures.draw(results, title, files, target)
    except ModuleNotFoundError:
        print("nf compare: no pictures without matplotlib: pip install matplotlib", file=sys.stderr)
        return
    if not options.json:
        print(f"\npictures: {', '.join(map(str, files))}")


def main(arguments: list[str] | None = None) -> int:
    try:
        require_packages()
    except LaunchError as error:
        print(f"nf compare: {error}", file=sys.stderr)
        return 1
    from .jobs import Failures, make_jobs, run_all

    options = parse(arguments)
    jobs = make_jobs(options.out, chosen_routes(options), options.seeds, passed_on(options))
    try:
        check(options, jobs)
    except ValueError as error:
        print(f"nf compare: {error}", file=sys.stderr)
        return 2
    failed = 0
    try:
        if not options.table:
            tell = (lambda text: None) if options.json else (lambda text: print(text, flush=True))
            run_all(jobs, options.side_by_side, tell)
    except Failures as error:
        print(f"nf compare: runs have failed:\n{error}", file=sys.stderr)
        failed = 1
    except Interrupt as error:
        print(f"\nnf compare: {error}; what is done is kept in {options.out}, and the same command goes on "
              "from there", file=sys.stderr)
        return 128 + error.number
    except OSError as error:
        print(f"nf compare: {error}", file=sys.stderr)
        return 1
    results = [result for job in jobs if (result := job.result()) is not None]
    if not results:
        print(f"nf compare: {options.out} holds no finished run of this comparison", file=sys.stderr)
        return 1
    return show(options, results) or failed


if __name__ == "__main__":
    sys.exit(main())
