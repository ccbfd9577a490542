"""Ranks of the same host are found, and sums are hierarchical across hosts."""

from unittest.mock import patch

import neuron_fabric as nf
import pytest
import torch.distributed as dist
from neuron_fabric import session
from neuron_fabric.ranks.hosts import ranks_per_host
from ranks import on_ranks
from small_job import make, wrap


@pytest.mark.parametrize(("hosts", "size"), [
    ("", 0),
    ("a", 1),
    ("aaaa", 4),
    ("aabb", 2),
    ("abcd", 1),
    ("aaabbbccc", 3),
    ("aab", 0),  # different numbers of ranks
    ("abab", 0),  # not consecutive
    ("aabbaa", 0),
])
def test_host_groups_need_equal_numbers_of_consecutive_ranks(hosts, size):
    assert ranks_per_host(list(hosts)) == size


def topology_on(hosts: str, **options: object) -> str:
    """The topology of an attached model whose ranks appear to be on these hosts."""
    with patch.object(session, "host_id", lambda: hosts[dist.get_rank()]):
        fabric = nf.attach(wrap(make()), **options)
    topology = fabric.summary().to_dict()["topology"]
    fabric.close()
    return topology


@pytest.mark.parametrize(("hosts", "topology"), [
    ("aabb", "hierarchical"),
    ("aaaa", "direct"),
    ("abcd", "direct"),
    ("abab", "direct"),
])
def test_sums_are_hierarchical_if_several_hosts_have_several_ranks(hosts, topology):
    assert on_ranks(4, topology_on, hosts, admit="safe") == [topology] * 4


def measured_on(hosts: str) -> list[str]:
    with patch.object(session, "host_id", lambda: hosts[dist.get_rank()]):
        with nf.attach(wrap(make(width=512))) as fabric:
            return list(fabric.summary().to_dict()["topology_ms"])


def test_host_groups_are_measured_first():
    for names in on_ranks(4, measured_on, "aabb"):
        assert names[0] == "hierarchical"
    for names in on_ranks(4, measured_on, "aaaa"):
        assert names[0] == "direct" and "hierarchical" not in names


def test_error_feedback_is_summed_hierarchically_only_on_request():
    assert on_ranks(4, topology_on, "aabb", route="waterfill:3+ef") == ["direct"] * 4
    asked = {"route": "waterfill:3+ef", "topology": "hierarchical"}
    assert on_ranks(4, topology_on, "aabb", **asked) == ["hierarchical"] * 4


def rejection_on(hosts: str, **options: object) -> str:
    with pytest.raises(ValueError) as rejected:
        topology_on(hosts, topology="hierarchical", **options)
    return str(rejected.value)


def test_hierarchical_sums_need_equal_host_groups():
    for message in on_ranks(3, rejection_on, "aab"):
        assert "different numbers of consecutive ranks; set group_size=" in message
    for message in on_ranks(3, rejection_on, "aab", group_size=2):
        assert message == "group_size=2 does not divide 3 ranks"
