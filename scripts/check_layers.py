#!/usr/bin/env python3
"""Keeps the arrows between layers pointing down, over the #include lines of include/ and src/.

Prints file:line for each breach and exits 1 if there is one. tools/, bench/, tests/, examples/ and
python/ stand above the layers and may use all of them.
"""

import re
import sys
from pathlib import Path

# What each layer may include, itself aside. src/fabric.cc, in no layer, assembles them all.
BELOW = {
    "base": set(),
    "codec": {"base"},
    "transport": {"base"},
    "cxl": {"base", "codec"},
    "collective": {"base", "codec", "transport"},
    "runtime": {"base", "codec", "transport", "collective", "cxl"},
}
LOWEST_FIRST = list(BELOW)
INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
STANDARD = re.compile(r"[a-z_0-9]+")  # <vector>, <cstdint>: no folder, no extension
PUBLIC = "neuron_fabric/"


def includes(path):
    """(line number, quoted name or None, angled name or None) of each #include."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1], match[2]


def public_layer(root, name, seen=()):
    """The layer of a public header: that of the source of the same name; for a header without
    one, the highest among the headers it includes."""
    sources = [p for p in (root / "src").rglob(Path(name).stem + ".cc")]
    layers = [s.relative_to(root / "src").parts[0] for s in sources]
    header = root / "include" / name
    if not layers and header.exists():
        layers = [public_layer(root, quoted, (*seen, name)) for _, quoted, _ in includes(header)
                  if quoted and quoted.startswith(PUBLIC) and quoted not in (*seen, name)]
    return max((layer for layer in layers if layer in BELOW), key=LOWEST_FIRST.index,
               default="base")


def target_layer(root, path, name):
    """The layer that `name`, included by `path`, belongs to; None for another library's header."""
    if name.startswith(PUBLIC):
        return public_layer(root, name)
    beside = (path.parent / name).resolve()
    full = beside if beside.exists() else root / "src" / name
    if not full.is_relative_to(root / "src"):
        return str(full.relative_to(root).parts[0]) if full.is_relative_to(root) else None
    first = full.relative_to(root / "src").parts[0]
    return first if first in BELOW else None


def breaches(root):
    root = root.resolve()
    for path in sorted([*(root / "include").rglob("*"), *(root / "src").rglob("*")]):
        if path.suffix not in (".h", ".cc", ".cuh", ".cu"):
            continue
        place = path.relative_to(root)
        is_public = place.parts[0] == "include"
        layer = public_layer(root, str(Path(*place.parts[1:]))) if is_public else place.parts[1]
        for number, quoted, angled in includes(path):
            where = f"{place}:{number}"
            if is_public and angled and not STANDARD.fullmatch(angled):
                yield f"{where}: a public header includes <{angled}>, not of the standard library"
            elif is_public and quoted and not quoted.startswith(PUBLIC):
                yield f'{where}: a public header includes "{quoted}", which is not public'
            elif quoted and layer in BELOW:
                target = target_layer(root, path, quoted)
                if target not in (None, layer, *BELOW[layer]):
                    yield f'{where}: {layer} includes "{quoted}" of {target}'


def main():
    found = list(breaches(Path(__file__).parent.parent))
    print("\n".join(found) if found else "layers: arrows point down")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
