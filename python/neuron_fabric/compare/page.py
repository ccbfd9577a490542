"""A page of comparisons, from folders of stored results: a table and a picture each, with the machine, the
commit and the command beside them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neuron_fabric import provenance, units
from neuron_fabric.files import write_whole
from neuron_fabric.train.result import commits, parse_result

from . import pictures, race, words
from .figures import BF16, FULL_PRECISION, Comparison, compare

NOTE = "note.md"  # what a reader must know of a folder's runs and no result says
SHARED_NOTE = "shared_machine.md"  # the same, of runs that shared their machine with others


class PageError(Exception):
    """A folder that holds no results, or spoilt ones."""


def stored_results(folder: Path) -> list[dict[str, Any]]:
    """By route and seed: full precision first, BF16 next, others by their names."""
    results = []
    for path in sorted(folder.rglob("*.json")):
        try:
            result = parse_result(path.read_text())
        except (OSError, ValueError) as error:
            raise PageError(f"{path}: {error}") from error
        if isinstance(result, dict) and result.get("finished") and "curve" in result:
            results.append(result)

    def place(result: dict[str, Any]) -> tuple[int, str, int]:
        route = result["route"]
        rank = 0 if route in FULL_PRECISION else 1 if route in BF16 else 2
        return rank, route, result["seed"]

    return sorted(results, key=place)


def section(name: str, comparison: Comparison, picture: str, note: str = "") -> str:
    first = comparison.results[0]
    title = f"{first['workload']} ({first['size']}), {units.counted(first['ranks'], 'rank')}"
    parts = [f"## {title}" if name == first["workload"] else f"## {name}: {title}",
             f"{first['parameters']:,} parameters, {first['steps']:,} steps of {first['ranks']} x "
             f"{first['batch']} examples, the same seeds, batches and first weights for every route.",
             *([note] if note else []), words.markdown(words.route_rows(comparison)), f"{words.legend(comparison)}."]
    if rows := race.target_rows(comparison):
        parts += [race.title(comparison), words.markdown(rows)]
    parts.append(f"![{title}]({picture})")
    reason = [] if note else filter(None, [words.no_times(comparison)])
    if sentences := [*race.sentences(comparison), *words.fallbacks(comparison), *reason]:
        parts.append("\n".join(f"- {sentence}" for sentence in sentences))
    return "\n\n".join([*parts, origin(comparison.results)])


def origin(results: Sequence[dict[str, Any]]) -> str:
    """What is needed to make the figures again."""
    machines = {_machine(result) for result in results}
    found = {commit for result in results for commit in commits(result)}
    return (f"Machine: {'; '.join(sorted(machines))}. Commit: {', '.join(sorted(found))}. The first of "
            f"the runs:\n\n```\n{results[0]['command']}\n```")


def _machine(result: dict[str, Any]) -> str:
    return f"{provenance.in_words(result['machine'])}, PyTorch {result['versions']['torch']}"


def make_page(folders: Sequence[Path], page: Path, images: Path) -> list[str]:
    """Writes the page and its pictures. Returns the names of folders without results. Raises PageError
    where none has any."""
    sections, empty = [], []
    for folder in folders:
        results = stored_results(folder)
        if not results:
            empty.append(folder.name)
            continue
        images.mkdir(parents=True, exist_ok=True)
        picture = images / f"results_{folder.name}.svg"
        shared = folder / SHARED_NOTE
        comparison = compare(results, shared=shared.exists())
        pictures.draw(comparison, [picture])
        link = os.path.relpath(picture, page.parent)
        note = shared if shared.exists() else folder / NOTE
        sections.append(section(folder.name, comparison, link,
                                note.read_text().strip() if note.exists() else ""))
    if not sections:
        raise PageError("none of the folders holds results of nf train")
    head = ("# Results\n\nMade by `scripts/results.py` from the results in `bench/results`; `nf compare` "
            "makes such results. Accuracy is that of data held back; means over seeds.")
    write_whole(page, "\n\n".join([head, *sections]) + "\n")
    return empty
