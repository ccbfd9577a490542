"""Which ranks share a machine, and that sums follow it."""

from unittest.mock import patch

import neuron_fabric as nf
import pytest
import torch.distributed as dist
from neuron_fabric import session
from neuron_fabric.ranks.hosts import ranks_per_host
from ranks import on_ranks
from small_job import make, wrap


@pytest.mark.parametrize(("machines", "size"), [
    ("", 0),
    ("a", 1),
    ("aaaa", 4),
    ("aabb", 2),
    ("abcd", 1),
    ("aaabbbccc", 3),
    ("aab", 0),  # not as many each
    ("abab", 0),  # in turn
    ("aabbaa", 0),
])
def test_machines_have_groups_where_all_have_as_many_consecutive_ranks(machines, size):
    assert ranks_per_host(list(machines)) == size


def topology_on(machines: str, **options: object) -> str:
    """Of an attached model on ranks that take themselves to be on these machines."""
    with patch.object(session, "host_id", lambda: machines[dist.get_rank()]):
        fabric = nf.attach(wrap(make()), **options)
    topology = fabric.summary().to_dict()["topology"]
    fabric.close()
    return topology


@pytest.mark.parametrize(("machines", "topology"), [
    ("aabb", "hierarchical"),
    ("aaaa", "direct"),
    ("abcd", "direct"),
    ("abab", "direct"),
])
def test_sums_are_hierarchical_where_ranks_share_several_machines(machines, topology):
    assert on_ranks(4, topology_on, machines) == [topology] * 4


def test_error_feedback_is_summed_hierarchically_only_where_that_is_asked_for():
    assert on_ranks(4, topology_on, "aabb", route="waterfill:3+ef") == ["direct"] * 4
    asked = {"route": "waterfill:3+ef", "topology": "hierarchical"}
    assert on_ranks(4, topology_on, "aabb", **asked) == ["hierarchical"] * 4


def refusal_on(machines: str, **options: object) -> str:
    with pytest.raises(ValueError) as refused:
        topology_on(machines, topology="hierarchical", **options)
    return str(refused.value)


def test_hierarchical_sums_need_machines_with_as_many_ranks():
    for message in on_ranks(3, refusal_on, "aab"):
        assert "different numbers of consecutive ranks; set group_size=" in message
    for message in on_ranks(3, refusal_on, "aab", group_size=2):
        assert message == "group_size=2 does not divide 3 ranks"
