"""A real job: two ranks on this host train a tiny model over Gloo, at low bits, with DDP and with FSDP2."""

import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from neuron_fabric.ranks.launch import LOG, Interrupt, LaunchError, launch, run_rank
from neuron_fabric.support import units
from neuron_fabric.support.files import write_atomic

from .finding import Finding, failed, ok

CHECK = "two ranks"
RANKS, STEPS, ROUTE = 2, 5, "waterfill:4"
WRAPPERS = ("DDP", "FSDP2")
SECONDS = 180.0  # a few on an idle machine
SECONDS_TO_END = 40.0  # torchrun gives its ranks 30 s
# Relative to the energy of the sum: the route has an error of about 1 %.
MAX_ERROR = 0.05
RESULT = "doctor-result.json"
FAILURE = "doctor-failure.txt"
# The environment has a separate check, and an existing folder of records must not be changed.
LEFT_OUT = ("NF_MODE", "NF_RUN_DIR")


def work(out: Path) -> None:
    """The work of one rank. Raises RuntimeError if the sums are wrong."""
    import torch.distributed as dist

    from neuron_fabric.ranks.job import join, leave

    join("cpu")
    results = {wrapper: train(wrapper) for wrapper in WRAPPERS}
    if dist.get_rank() == 0:
        write_atomic(out / RESULT, json.dumps(results))
    leave()


def train(wrapper: str) -> dict[str, float]:
    """Trains a tiny model. The relative error of the reduced gradients, and the bytes relative to FP32's."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor

    import neuron_fabric as nf

    def whole(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
        return nn.utils.parameters_to_vector(
            one.full_tensor() if isinstance(one, DTensor) else one for one in tensors).detach()

    torch.manual_seed(1)
    alone = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
    net = copy.deepcopy(alone)
    if wrapper == "DDP":
        model = nn.parallel.DistributedDataParallel(net)
    else:
        model = fully_shard(net, mesh=init_device_mesh("cpu", (RANKS,)))  # by default on a GPU, if there is one
    fabric = nf.attach(model, route=ROUTE, timeout=SECONDS / 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    draws = torch.Generator().manual_seed(dist.get_rank())
    errors = []
    for _ in range(STEPS):
        values = torch.randn(32, 64, generator=draws)
        for one in (alone, model):
            one.zero_grad()
            nn.functional.mse_loss(one(values), values).backward()
        exact = whole(one.grad for one in alone.parameters())
        dist.all_reduce(exact)
        exact /= RANKS
        reduced = whole(one.grad for one in model.parameters())
        errors.append(float((reduced - exact).square().sum() / exact.square().sum()))
        optimizer.step()
        nn.utils.vector_to_parameters(whole(model.parameters()).clone(), alone.parameters())
    weights = whole(model.parameters())
    gathered = [torch.empty_like(weights) for _ in range(RANKS)]
    dist.all_gather(gathered, weights)
    if not all(torch.equal(other, weights) for other in gathered):
        raise RuntimeError(f"{wrapper}: replicas differ after {STEPS} steps")
    error = sum(errors) / STEPS
    if not 0 < error < MAX_ERROR:
        raise RuntimeError(f"{wrapper}: the relative error of the sums is {error:.2g}, expected about 0.01 for "
                           f"{ROUTE}")
    ratio = fabric.summary().bytes_ratio
    fabric.close()
    return {"error": error, "ratio": ratio}


def start(out: Path) -> int:
    """Starts the ranks, in a process that can be killed."""
    try:
        launch("neuron_fabric.doctor.job", [str(out), "--rank"], RANKS, out)
    except (LaunchError, OSError) as error:
        write_atomic(out / FAILURE, getattr(error, "cause", str(error)))
        return 1
    except Interrupt:
        return 1
    return 0


def check_job(seconds: float = SECONDS) -> Finding:
    """If a rank fails, its logs are kept, and the finding names them."""
    out = Path(tempfile.mkdtemp(prefix="nf-doctor-"))
    begin = time.monotonic()
    environment = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    command = [sys.executable, "-P", "-m", "neuron_fabric.doctor.job", str(out)]
    job = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _, errors = job.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return failed(CHECK, f"not finished after {seconds:.0f} s", _read(out))
    finally:
        _end(job)
    if job.returncode != 0:
        path = out / FAILURE
        last = (errors.strip().splitlines() or [f"status {job.returncode}"])[-1]
        cause = path.read_text(encoding="utf-8") if path.exists() else last
        return failed(CHECK, " ".join(cause.split()), _read(out))
    results = json.loads((out / RESULT).read_text(encoding="utf-8"))
    shutil.rmtree(out, ignore_errors=True)
    of_each = "; ".join(
        f"{wrapper}: error {units.percent(result['error'])} of the energy, {units.percent(result['ratio'])} of "
        "FP32's bytes" for wrapper, result in results.items())
    return ok(CHECK, f"{STEPS} steps over Gloo with {ROUTE}, replicas equal; {of_each}; "
              f"{units.seconds(time.monotonic() - begin)}")


def _read(out: Path) -> str:
    return f"Read the logs of the ranks in {out / LOG}."


def _end(job: "subprocess.Popen[str]") -> None:
    """Sends SIGTERM first, so that torchrun ends its ranks."""
    if job.poll() is None:
        job.terminate()
        try:
            job.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            job.kill()
            job.wait()


def main(arguments: list[str]) -> int:
    out = Path(arguments[0])
    return run_rank(lambda: work(out)) if "--rank" in arguments else start(out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
