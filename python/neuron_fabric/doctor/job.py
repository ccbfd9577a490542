"""A real job: two ranks on this host train a tiny model over Gloo, at low bits."""

import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from neuron_fabric.ranks.launch import LOG, Interrupt, LaunchError, launch, run_rank
from neuron_fabric.support import units
from neuron_fabric.support.files import write_atomic

from .finding import Finding, failed, ok

CHECK = "two ranks"
RANKS, STEPS, ROUTE = 2, 5, "waterfill:4"
SECONDS = 60.0
SECONDS_TO_END = 40.0  # torchrun gives its ranks 30 s
# Relative to the energy of the sum: the route has an error of about 1 %.
MAX_ERROR = 0.05
RESULT = "doctor-result.json"
FAILURE = "doctor-failure.txt"
# The environment has a separate check, and an existing folder of records must not be changed.
LEFT_OUT = ("NF_MODE", "NF_RUN_DIR")


def work(out: Path) -> None:
    """The work of one rank. Raises RuntimeError if the sums are wrong."""
    import torch
    import torch.distributed as dist
    from torch import nn

    import neuron_fabric as nf
    from neuron_fabric.ranks.job import join, leave

    join("cpu")
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
    model = nn.parallel.DistributedDataParallel(net)
    fabric = nf.attach(model, route=ROUTE, timeout=SECONDS / 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    draws = torch.Generator().manual_seed(dist.get_rank())
    errors = []
    for _ in range(STEPS):
        values = torch.randn(32, 64, generator=draws)
        alone = copy.deepcopy(net)
        for copied in (alone, model):
            copied.zero_grad()
            nn.functional.mse_loss(copied(values), values).backward()
        exact = nn.utils.parameters_to_vector(p.grad for p in alone.parameters())
        dist.all_reduce(exact)
        exact /= RANKS
        summed = nn.utils.parameters_to_vector(p.grad for p in net.parameters())
        errors.append(float((summed - exact).square().sum() / exact.square().sum()))
        optimizer.step()
    weights = nn.utils.parameters_to_vector(net.parameters()).detach()
    gathered = [torch.empty_like(weights) for _ in range(RANKS)]
    dist.all_gather(gathered, weights)
    if not all(torch.equal(other, weights) for other in gathered):
        raise RuntimeError(f"replicas differ after {STEPS} steps")
    error = sum(errors) / STEPS
    if not 0 < error < MAX_ERROR:
        raise RuntimeError(f"relative error of the sums is {error:.2g}, expected about 0.01 for {ROUTE}")
    if dist.get_rank() == 0:
        result = {"error": error, "ratio": fabric.summary().bytes_ratio}
        write_atomic(out / RESULT, json.dumps(result))
    fabric.close()
    leave()


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
        _, said = job.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return failed(CHECK, f"not finished after {seconds:.0f} s", _read(out))
    finally:
        _end(job)
    if job.returncode != 0:
        path = out / FAILURE
        last = (said.strip().splitlines() or [f"status {job.returncode}"])[-1]
        cause = path.read_text(encoding="utf-8") if path.exists() else last
        return failed(CHECK, " ".join(cause.split()), _read(out))
    result = json.loads((out / RESULT).read_text(encoding="utf-8"))
    shutil.rmtree(out, ignore_errors=True)
    return ok(CHECK, f"{STEPS} steps over Gloo with {ROUTE}: replicas equal, error "
              f"{units.percent(result['error'])} of the energy, {units.percent(result['ratio'])} of "
              f"FP32's bytes, {units.seconds(time.monotonic() - begin)}")


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
