"""Joins a job: on the host's cores over Gloo, or on CUDA devices over NCCL."""

import contextlib
import os

import torch
import torch.distributed as dist


class JobError(RuntimeError):
    """This process cannot join a job."""


def join(device: str) -> torch.device:
    """Joins the job that launch(), torchrun or scripts/slow_links.sh has started. `device` is cpu or
    cuda. Returns this rank's device.

    If ranks share a GPU, each gets its own NCCL_HOSTID. NCCL then connects them by sockets, as between
    hosts, instead of failing.
    """
    if "RANK" not in os.environ:
        raise JobError("this process is not part of a job: start it with torchrun or "
                       "scripts/slow_links.sh --launcher torch")
    if device == "cpu":
        torch.set_num_threads(1)  # ranks share the host's cores
        dist.init_process_group("gloo")
        return torch.device("cpu")
    cards = torch.cuda.device_count()
    if cards == 0:
        raise JobError("no CUDA device found; use --device cpu")
    local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    if local_ranks > cards:
        os.environ.setdefault("NCCL_HOSTID", f"rank{os.environ['RANK']}")
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
        # MPS gives a process two work queues, in which a waiting stream would block other streams. Four
        # ranks with 32 queues each fail under MPS.
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "16")
    card = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % cards)
    torch.cuda.set_device(card)
    dist.init_process_group("cpu:gloo,cuda:nccl")
    return card


def leave() -> None:
    """Leaves the job. All ranks call it at the end."""
    dist.barrier()
    dist.destroy_process_group()


def arithmetic(device: torch.device) -> contextlib.AbstractContextManager:
    """FP32 on the host; BF16 autocast on a CUDA device, as is usual in training."""
    if device.type == "cuda":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return contextlib.nullcontext()


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
