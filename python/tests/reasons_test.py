"""The reasons of admission are the same in the runtime, in reports and in the documentation."""

import re
from pathlib import Path

import torch  # noqa: F401  (loads the libraries that the extension links)

from neuron_fabric.telemetry.reasons import REASONS, TABLE

DOCS = Path(__file__).parents[2] / "docs"


def rows(page: str) -> dict[str, list[str]]:
    """The rows of a page's table of reasons, by name."""
    text = (DOCS / page).read_text()
    table = text[text.index("| reason | route |"):].split("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return {re.fullmatch(r"`(\w+)`", name)[1]: rest for name, *rest in cells}


def test_the_runtime_has_the_same_reasons():
    from neuron_fabric import _C

    assert sorted(_C.reason_names()) == sorted(REASONS)


def test_the_telemetry_page_has_the_table():
    routes = {"route=": "that of `route=`"}
    assert rows("telemetry.md") == {
        reason.name: [routes.get(reason.route, reason.route), reason.meaning] for reason in TABLE}


def test_the_admission_page_explains_every_reason():
    assert sorted(rows("admission.md")) == sorted(REASONS)
