"""`nf demo`, also `python -m neuron_fabric_lab.demo`: a small GPT trained three times on this host.

Four ranks under torchrun train the same model on the same data from the same seed: as plain DDP,
with one low-bit route forced on all parameters, and with nf.attach(admit="safe"). A table compares
them, and a report shows the third run.
"""

import argparse
import dataclasses
import os
import shlex
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from neuron_fabric import report
from neuron_fabric.ranks.launch import Interrupt, LaunchError, launch, require_packages, run_rank
from neuron_fabric.support import device_path, units
from neuron_fabric.support.files import write_atomic
from neuron_fabric.support.tables import align
from neuron_fabric_lab import json_text
from neuron_fabric_lab.train.options import TrainOptions, natural, positive

STATIC_ROUTE = "g_binary"
# Removed before each demo, so these names must not be used for anything else.
RESULTS = "demo-results.json"
RUNS = "demo-runs"
MPS_FOLDER = "/tmp/nvidia-mps"  # MPS's default


@dataclasses.dataclass(frozen=True)
class Variant:
    """The route of one of the runs."""

    name: str
    title: str
    route: str  # for `nf train`


VARIANTS = (
    Variant("plain", "plain DDP", "plain"),
    Variant("static", f"route=\"{STATIC_ROUTE}\"", STATIC_ROUTE),
    Variant("safe", "admit=\"safe\"", "default"),
)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="nf demo",
        description="Trains a small model on this host with plain DDP, with static low-bit "
                    "gradients and with nf.attach(), and compares accuracy, bytes and time.")
    parser.add_argument("--workload", choices=["gpt", "digits"], default="gpt",
                        help="the workload to train (gpt)")
    parser.add_argument("--size", help="the size of its model (gpt: mini; digits: small)")
    parser.add_argument("--steps", type=positive, help="steps of each run (gpt: 300; digits: 200)")
    parser.add_argument("--ranks", type=positive, default=4, help="processes (4)")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto",
                        help="auto: cuda if there is a device per rank, or MPS to share one; else cpu (auto)")
    parser.add_argument("--seed", type=natural, default=1)
    parser.add_argument("--out", type=Path, default=Path("nf-demo"), metavar="DIR",
                        help="the folder for the runs' files and the report (nf-demo)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per run, no table")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.ranks < 2:
        parser.error("argument --ranks: a single rank sends nothing; use 2 or more")
    return options


# The work of a rank.


def work(options: argparse.Namespace, command: str) -> None:
    """The three runs, one after the other, on every rank. Rank 0 prints and writes."""
    import torch.distributed as dist

    from neuron_fabric.ranks.job import join, leave
    from neuron_fabric_lab.train.result import result_of
    from neuron_fabric_lab.train.run import Run
    from neuron_fabric_lab.workloads import make_workload

    device = join(options.device)
    workload = make_workload(options.workload, options.size).to(device)
    steps = options.steps or workload.steps
    speaks = dist.get_rank() == 0 and not options.json
    if speaks:
        count = sum(p.numel() for p in workload.make_model(options.seed).parameters())
        print(f"{workload.name}: {count:,} parameters; {workload.description}\n"
              f"{options.ranks} ranks on this host, on {device.type}, {steps} steps, {len(VARIANTS)} times with "
              "the same seed and the same data\n", flush=True)
    results = []
    for variant in VARIANTS:
        folder = options.out / RUNS / variant.name
        run = Run(TrainOptions(
            workload=workload.name, size=options.size, route=variant.route, admit="safe",
            ranks=options.ranks, steps=steps, seed=options.seed, device=device.type, eval_every=steps,
            out=folder, run_dir=folder), workload, device)
        if speaks:
            run.show(variant.title)
        dist.barrier()
        while not run.is_over:
            run.advance()
        results.append({"run": variant.name, "title": variant.title} | result_of(run)
                       | {"command": command})
        run.close()
    if dist.get_rank() == 0:
        write_atomic(options.out / RESULTS, json_text.dumps(results))
    leave()


# The process that starts the ranks.


def choose_device(ranks: int, cards: int, architectures: str, has_mps: bool) -> tuple[str, str]:
    """cuda or cpu, and why a device is not used; empty if there is none. architectures: the extension's."""
    if cards == 0:
        return "cpu", ""
    if not architectures:
        return "cpu", f"this build contains no device code; build with {device_path.REBUILD}"
    if cards < ranks and not has_mps:
        return "cpu", (f"{units.counted(ranks, 'rank')} would wait for each other on {units.counted(cards, 'device')}"
                       "; start MPS to share devices: nvidia-cuda-mps-control -d")
    return "cuda", ""


def find_device(ranks: int) -> tuple[str, str]:
    import torch

    from neuron_fabric import _C

    mps = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", MPS_FOLDER)) / "control"
    return choose_device(ranks, torch.cuda.device_count(), _C.architectures, mps.exists())


def prepare(out: Path) -> None:
    """Creates the folder and removes the files of an earlier demo."""
    out.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(out / RUNS, ignore_errors=True)
    (out / RESULTS).unlink(missing_ok=True)


def table(results: list[dict[str, Any]]) -> str:
    rows = [["run", "accuracy", "loss", "sent per step", "of plain", "step", "total"]]
    for result in results:
        rows.append([
            result["title"], f"{100 * result['accuracy']:.2f} %", f"{result['loss']:.4f}",
            units.byte_count(result["bytes"]),
            units.percent(result["bytes"] / result["dense_bytes"]),
            units.seconds(result["step_seconds"]), f"{result['seconds']:.1f} s"])
    return align(rows, left=1)


def conclusion(results: list[dict[str, Any]]) -> str:
    plain, static, safe = results

    def compared(result: dict[str, Any]) -> str:
        sent = units.percent(result["bytes"] / plain["bytes"])
        return (f"{sent} of plain DDP's bytes, at {result['loss'] - plain['loss']:+.4f} of loss "
                f"and {100 * (result['accuracy'] - plain['accuracy']):+.2f} points of accuracy")

    return (
        f"{STATIC_ROUTE} on all parameters sends {compared(static)}.\n"
        f"admit=\"safe\" keeps norms, biases and the first steps dense and monitors the rest: "
        f"it sends\n{compared(safe)}.\n"
        "Within a host, bytes are cheap, so times mean little here; there admit=\"useful\", the default, keeps\n"
        "gradients dense unless it predicts a shorter step.")


def show(options: argparse.Namespace) -> None:
    from neuron_fabric_lab.train.result import parse_result

    results = parse_result((options.out / RESULTS).read_text())
    page = options.out / "demo-report.html"
    write_atomic(page, report.make_page(options.out / RUNS / "safe"))
    if options.json:
        for result in results:
            print(json_text.dumps(result))
    else:
        print(f"\n{table(results)}\n\n{conclusion(results)}\n\nreport: {page}")


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parse(arguments)
    if options.worker:
        given = [word for word in arguments if word != "--worker"]
        return run_rank(lambda: work(options, shlex.join(["nf", "demo", *given])))
    try:
        require_packages()
        prepare(options.out)
        device, why_not = find_device(options.ranks) if options.device == "auto" else (options.device, "")
        if not options.json:
            print(f"starting {options.ranks} ranks on {device}{why_not and f' ({why_not})'}", flush=True)
        launch("neuron_fabric_lab.demo", ["--worker", *arguments, "--device", device], options.ranks, options.out)
        show(options)
    except (LaunchError, OSError, report.RunError) as error:
        print(f"nf demo: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, Interrupt) as error:
        print("\nnf demo: interrupted", file=sys.stderr)
        return 128 + getattr(error, "number", signal.SIGINT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
