"""How the processes of a job join: on the host's cores over Gloo, or on CUDA devices over NCCL."""

import contextlib
import os

import torch
import torch.distributed as dist


class JobError(RuntimeError):
    """This process cannot take part in a job."""


def join(device: str) -> torch.device:
    """Joins the job that launch(), torchrun or scripts/slow_links.sh has started. `device` is cpu or
    cuda; what is returned is this rank's own.

    Where ranks share a card, each says that it is a host of its own: NCCL then takes its sockets
    between them, as between machines, instead of refusing.
    """
    if "RANK" not in os.environ:
        raise JobError("this is no process of a job: start it under torchrun or "
                       "scripts/slow_links.sh --launcher torch")
    if device == "cpu":
        torch.set_num_threads(1)  # ranks share the machine's cores
        dist.init_process_group("gloo")
        return torch.device("cpu")
    cards = torch.cuda.device_count()
    if cards == 0:
        raise JobError("there is no CUDA device here; take --device cpu")
    local_ranks = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    if local_ranks > cards:
        os.environ.setdefault("NCCL_HOSTID", f"rank{os.environ['RANK']}")
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
        # MPS gives a process two work queues, and a stream that waits would hold up another's.
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "8")
    card = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % cards)
    torch.cuda.set_device(card)
    dist.init_process_group("cpu:gloo,cuda:nccl")
    return card


def leave() -> None:
    """All ranks together, at the end."""
    dist.barrier()
    dist.destroy_process_group()


def arithmetic(device: torch.device) -> contextlib.AbstractContextManager:
    """FP32 on the host; on a device matrices are multiplied in BF16, as training does."""
    if device.type == "cuda":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return contextlib.nullcontext()


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
