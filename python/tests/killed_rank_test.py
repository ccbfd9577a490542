"""A rank that dies is named by all others, at once, without torchrun to help them."""

import os
import socket
import subprocess
import sys
import textwrap

import pytest

RANKS, VICTIM, STEP = 3, 1, 12

WORKER = textwrap.dedent("""
    import os, sys, time
    import torch, torch.distributed as dist
    from torch import nn
    import neuron_fabric as nf

    route, victim, step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    dist.init_process_group("gloo")
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.Linear(128, 10))
    model = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.05)
    nf.attach(model, route=route)
    try:
        while True:
            if dist.get_rank() == victim and step == 0:
                os.kill(os.getpid(), 9)
            step -= 1
            begin = time.monotonic()
            model(torch.randn(4, 64)).sum().backward()
            model.zero_grad()
    except RuntimeError as error:
        print(f"{time.monotonic() - begin:.1f} {error}", flush=True)
        os._exit(3)
""")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("route", ["fp32", "waterfill:4"])
def test_all_others_raise_at_once_with_rank_step_and_bucket(route: str) -> None:
    job = os.environ | {
        "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
    }
    ranks = [
        subprocess.Popen([sys.executable, "-c", WORKER, route, str(VICTIM), str(STEP)],
                         env=job | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(RANKS)
    ]
    try:
        said = [rank.communicate(timeout=100)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert ranks[VICTIM].returncode == -9
    for rank in set(range(RANKS)) - {VICTIM}:
        assert ranks[rank].returncode == 3, said[rank]
        seconds, _, message = said[rank].partition(" ")
        assert float(seconds) < 30, "the timeout of the group is half an hour"
        assert f"rank {VICTIM} is gone" in message
        assert f"step {STEP}, bucket " in message
