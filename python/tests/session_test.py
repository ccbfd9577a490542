"""What is behind an attached model: its timeout, and what is left of it when it is dropped."""

from datetime import timedelta

import pytest
import torch.distributed as dist
from neuron_fabric.session import _timeout_of
from ranks import on_ranks


def timeout_of_a_group(backend: str) -> float:
    group = dist.new_group(backend=backend, timeout=timedelta(seconds=60))
    seconds = _timeout_of(group)
    dist.destroy_process_group(group)
    return seconds


@pytest.mark.parametrize("backend", ["gloo", "cuda:gloo"])
def test_the_timeout_is_that_of_the_group_whatever_its_devices(backend):
    """A group over NCCL has no backend of the host; one of Gloo for CUDA alone is as such."""
    assert on_ranks(2, timeout_of_a_group, backend) == [60, 60]
