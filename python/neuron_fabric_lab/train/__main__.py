"""`nf train WORKLOAD`: starts the ranks of a job, or runs one of its ranks."""

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from neuron_fabric.ranks.launch import Interrupt, LaunchError, launch, require_packages, run_rank
from neuron_fabric.support import units
from neuron_fabric_lab import json_text
from neuron_fabric_lab.train.target import Target, to_target

if TYPE_CHECKING:
    from neuron_fabric_lab.train.options import TrainOptions


def summary_of(result: dict[str, Any], target: Target | None) -> str:
    """The result in a few lines."""
    lines = [f"accuracy {100 * result['accuracy']:.2f} %, loss {units.number(result['loss'])} after "
             f"{result['steps']:,} steps, {units.seconds(result['seconds'])} of training",
             f"sent {units.byte_count(result['bytes'])} per step, {units.percent(result['bytes_ratio'])} of "
             f"FP32 both ways, {units.percent(result['bytes_up_ratio'])} of its contributions",
             "the run shared the machine with other runs: its times are omitted"
             if result.get("shared_machine") else
             f"step {units.seconds(result['step_seconds'])}, exposed "
             f"{units.seconds(result['exposed_seconds'])}"]
    if target is not None:
        took = "" if result["seconds_to_target"] is None else \
            f"{units.seconds(result['seconds_to_target'])} of training, "
        lines.append(f"{target} not reached" if result["steps_to_target"] is None else
                     f"{target} after {units.counted(result['steps_to_target'], 'step')}, "
                     f"{took}{units.byte_count(result['bytes_to_target'])} sent")
    if result["fallbacks"]:
        lines.append(f"fallbacks: {len(result['fallbacks'])}, the first at step "
                     f"{result['fallbacks'][0]['step']}: {result['fallbacks'][0]['reason']}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        require_packages()
    except LaunchError as error:
        print(f"nf train: {error}", file=sys.stderr)
        return 1
    from neuron_fabric_lab.train import checkpoint, rank, result, routes
    from neuron_fabric_lab.train.options import parse
    from neuron_fabric_lab.workloads import WORKLOADS

    options = parse(arguments, list(WORKLOADS))
    try:
        routes.check_route(options)
        WORKLOADS[options.workload].check_size(options.size)
    except ValueError as error:
        print(f"nf train: {error}", file=sys.stderr)
        return 2
    if "RANK" in os.environ:
        return run_rank(lambda: rank.work(options))
    try:
        identity = options.identity()
        if not result.is_finished(result.read_result(options.out), identity):
            checkpoint.check_same(options.out, identity)
            launch("neuron_fabric_lab.train", arguments, options.ranks, options.out)
        elif missing := missing_files(options):
            print(f"nf train: the run in {options.out} is already finished and does not run again, so there "
                  f"is no {' and no '.join(missing)}; use another --out", file=sys.stderr)
    except (LaunchError, checkpoint.OtherRun, OSError) as error:
        print(f"nf train: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, Interrupt) as error:
        print(f"\nnf train: interrupted; {checkpoint.kept_steps(options.out)} steps are saved in "
              f"{options.out}; the same command continues from there", file=sys.stderr)
        return 128 + getattr(error, "number", signal.SIGINT)
    return show(options, result.read_result(options.out))


def missing_files(options: "TrainOptions") -> list[str]:
    """The files that the run should write besides its result, and that do not exist."""
    from neuron_fabric.telemetry.jsonl import run_file

    files = [None if options.run_dir is None else run_file(options.run_dir, 0), options.record]
    return [str(path) for path in files if path is not None and not path.exists()]


def show(options: "TrainOptions", result: dict[str, Any] | None) -> int:
    from neuron_fabric_lab.train.result import own_times

    if result is None:
        print(f"nf train: the ranks wrote no result to {options.out}", file=sys.stderr)
        return 1
    # A run that was already finished may have had another target.
    result = own_times(result | to_target(options.target, result["curve"]))
    if options.json:
        print(json_text.dumps(result))
    elif result["finished"]:
        print(summary_of(result, options.target))
    if result["diverged"]:
        print(f"nf train: the loss is NaN or Inf at step {result['steps']}: training diverges on "
              f"{options.route}", file=sys.stderr)
        return 1
    if not result["finished"]:
        print(f"nf train: {result['steps']} of {result['wanted_steps']} steps done; the same command "
              "continues from there", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
