"""The names of topologies are those of the table in src/collective/topology.cc, everywhere."""

import re
from pathlib import Path

import torch  # noqa: F401  loads the libraries that the extension links
from neuron_fabric._C import topology_names
from neuron_fabric.settings import TOPOLOGIES

DOCS = Path(__file__).parents[2] / "docs"
MEASURED_ONLY = {"endpoint"}


def test_attach_accepts_the_topologies_of_the_core():
    assert set(TOPOLOGIES) == {"auto", *topology_names()} - MEASURED_ONLY


def test_the_page_on_collectives_has_a_section_and_a_row_for_every_topology():
    text = (DOCS / "collectives.md").read_text()
    names = topology_names()
    sections = re.findall(r"^## ([a-z_]+)$", text, re.MULTILINE)
    assert [section for section in sections if section in names] == names
    rows = re.findall(r"^\| \[`([a-z_]+)`\]", text, re.MULTILINE)
    assert set(rows) == set(names) - {"hierarchical"}  # it has no chunk path of its own
