"""HSDP has a job per shard, and one per replica: if one of them fails, or differs from the others, all ranks raise."""

import os
from pathlib import Path
from unittest import mock

import pytest
import torch.distributed as dist
from fsdp_job import Mesh, make
from fsdp_rejection_test import ROUTE, rejection
from neuron_fabric import running
from ranks import on_ranks

HSDP, LOW_BIT_HSDP = Mesh(2, 2), Mesh(2, 2, "low_bit")


def jobs_that_differ(mesh: Mesh) -> list[str]:
    """With replicas, the ranks of a shard are a job; here all ranks of a job have the same settings."""
    shard, messages = dist.get_rank() % mesh.shards, []
    _, message = rejection(lambda: mesh.attach(make(mesh), route=f"waterfill:{3 + shard}"))
    messages.append(message)
    with mock.patch.dict(os.environ, {"NF_MODE": ("on", "off")[shard]}):
        _, message = rejection(lambda: mesh.attach(make(mesh), **ROUTE))
    messages.append(message)
    return messages


def test_jobs_that_differ_are_rejected():
    for route, mode in on_ranks(4, jobs_that_differ, LOW_BIT_HSDP):
        assert "differ in route: waterfill:3 and waterfill:4; start all ranks with the same configuration" in route
        assert "differ in NF_MODE: on and off; start all ranks with the same configuration" in mode


def opened_jobs(mesh: Mesh, profile: Path) -> tuple[str, int]:
    """The error if the job of the second shard has no profile, and the number of sessions that are still open."""
    shard, before = dist.get_rank() % mesh.shards, set(running._running)
    with pytest.raises((RuntimeError, ValueError)) as caught:
        mesh.attach(make(mesh), profile=None if shard == 0 else profile)
    return str(caught.value), len(running._running - before)


def test_a_job_is_closed_if_another_one_fails(tmp_path):
    for message, still_open in on_ranks(4, opened_jobs, HSDP, tmp_path / "missing.json"):
        assert "missing.json" in message
        assert still_open == 0


def attached_without_a_route_within(mesh: Mesh) -> tuple[str, bool]:
    model = make(mesh)
    _, message = rejection(lambda: mesh.attach(model, route="powersgd:2"))
    with mesh.attach(model, **ROUTE) as fabric:
        return message, fabric.within is not None


def test_after_an_error_within_replicas_the_model_can_be_attached():
    for message, is_attached in on_ranks(4, attached_without_a_route_within, LOW_BIT_HSDP):
        assert "route 'powersgd:2' has no reduce-scatter" in message
        assert is_attached
