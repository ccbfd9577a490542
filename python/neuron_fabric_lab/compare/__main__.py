"""`nf compare WORKLOAD --routes A,B,...`: trains on several routes and compares them."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuron_fabric.ranks.launch import Interrupt, LaunchError, require_packages
from neuron_fabric.support.files import write_atomic
from neuron_fabric.support.tables import align

if TYPE_CHECKING:
    from .figures import Comparison
    from .jobs import Job

DEFAULT_ROUTES = "fp32,bf16,g_binary,waterfill:4,default"
PASSED_ON = ("size", "data", "ranks", "steps", "epochs", "batch", "device", "admit", "eval_every")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    from neuron_fabric_lab.train.options import add_job_options, positive
    from neuron_fabric_lab.workloads import WORKLOADS

    parser = argparse.ArgumentParser(
        prog="nf compare",
        description="Trains a workload on several routes with the same seeds, and compares accuracy, "
                    "bytes and time. Finished runs are kept: the same command continues.")
    add_job_options(parser, list(WORKLOADS))
    parser.add_argument("--routes", default=DEFAULT_ROUTES, metavar="A,B,...",
                        help=f"routes, as for nf train ({DEFAULT_ROUTES}); FP32 and BF16 are added if they "
                        "are missing")
    parser.add_argument("--baseline", metavar="ROUTE",
                        help="the route that others are compared with; then no other is added (fp32 or "
                        "plain, and bf16 or plain_bf16 for the time to the target)")
    parser.add_argument("--seeds", type=positive, default=3, help="runs per route (3)")
    parser.add_argument("--side-by-side", type=positive, default=1, metavar="K",
                        help="concurrent runs, which share the machine: their times are omitted (1)")
    parser.add_argument("--launcher", type=shlex.split, default=[], metavar="COMMAND",
                        help="starts the ranks of a run, as 'scripts/slow_links.sh --launcher torch --' does "
                        "on hosts with slow links; needs a separate --out (ranks on this host)")
    parser.add_argument("--table", action="store_true",
                        help="train nothing: compare the existing runs")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder of the runs (nf-compare/WORKLOAD)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per run, no table")
    options = parser.parse_args(arguments)
    options.out = options.out or Path("nf-compare") / options.workload
    return options


def chosen_routes(options: argparse.Namespace) -> list[str]:
    """The given routes and the baselines."""
    from .figures import BF16, FULL_PRECISION, first_of

    routes = [route.strip() for route in options.routes.split(",") if route.strip()]
    if options.baseline is not None:
        joining = [] if options.baseline in routes else [options.baseline]
    else:
        joining = [names[0] for names in (FULL_PRECISION, BF16) if first_of(names, routes) is None]
    return list(dict.fromkeys(joining + routes))


def train_arguments(options: argparse.Namespace) -> list[str]:
    words = [options.workload]
    for name in PASSED_ON:
        if (value := getattr(options, name)) is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return words


def check(options: argparse.Namespace, jobs: Sequence["Job"]) -> None:
    """Raises ValueError, before any training, if a route or size does not exist, or if the files of two
    routes would have the same names."""
    from neuron_fabric_lab.train.routes import check_route
    from neuron_fabric_lab.workloads import WORKLOADS

    WORKLOADS[options.workload].check_size(options.size)
    owners: dict[Path, str] = {}
    for job in jobs:
        check_route(job.options())
        if (other := owners.setdefault(job.out, job.route)) != job.route:
            raise ValueError(f"{other} and {job.route} would both be stored in {job.out}; rename one of the "
                             "profiles")


def show(options: argparse.Namespace, results: list[dict[str, Any]]) -> int:
    from . import race, words
    from .figures import compare

    # Older results do not have their options.
    results = [{"shared_machine": options.side_by_side > 1} | result for result in results]
    comparison = compare(results, options.baseline, options.target)
    for result in results:
        if result["diverged"] and result["route"] == comparison.baseline:
            print(f"nf compare: {options.workload} diverges on the baseline {comparison.baseline} (seed "
                  f"{result['seed']}, step {result['steps']}): nothing can be compared with it",
                  file=sys.stderr)
            return 1
    parts = [align(words.route_rows(comparison), left=1), words.legend(comparison)]
    if rows := race.target_rows(comparison):
        parts += [race.title(comparison), align(rows, left=1)]
    sentences = [*race.sentences(comparison), *words.fallbacks(comparison), words.no_times(comparison),
                 words.several_commits(comparison)]
    if any(sentences):
        parts.append("\n".join(filter(None, sentences)))
    text = "\n\n".join(parts)
    lines = words.json_lines(comparison)
    write_atomic(options.out / "table.txt", text + "\n")
    write_atomic(options.out / "rows.jsonl", lines + "\n")
    print(lines if options.json else f"\n{text}")
    draw(options, comparison)
    return 0


def draw(options: argparse.Namespace, comparison: "Comparison") -> None:
    from . import pictures

    files = [options.out / f"{comparison.judged_by}.{kind}" for kind in ("svg", "png")]
    try:
        pictures.draw(comparison, files)
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
    from neuron_fabric_lab.train.checkpoint import OtherRun

    from .jobs import Failures, make_jobs, run_all

    options = parse(arguments)
    jobs = make_jobs(options.out, chosen_routes(options), options.seeds, train_arguments(options),
                     options.launcher, options.side_by_side > 1)
    try:
        check(options, jobs)
    except ValueError as error:
        print(f"nf compare: {error}", file=sys.stderr)
        return 2
    failed = 0
    try:
        if not options.table:
            for job in jobs:
                job.check_kept()
            report = (lambda text: None) if options.json else (lambda text: print(text, flush=True))
            run_all(jobs, options.side_by_side, report)
    except Failures as error:
        print(f"nf compare: some runs failed:\n{error}", file=sys.stderr)
        failed = 1
    except Interrupt as error:
        print(f"\nnf compare: {error}; finished runs are kept in {options.out}; the same command continues "
              "from there", file=sys.stderr)
        return 128 + error.number
    except (OtherRun, OSError) as error:
        print(f"nf compare: {error}", file=sys.stderr)
        return 1
    results = [result for job in jobs if (result := job.result()) is not None]
    if not results:
        print(f"nf compare: {options.out} has no finished run of this comparison", file=sys.stderr)
        return 1
    return show(options, results) or failed


if __name__ == "__main__":
    sys.exit(main())
