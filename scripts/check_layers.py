#!/usr/bin/env python3
"""Checks that includes and imports point down the layers.

C++: the #include lines of include/, src/, cuda/, python/csrc/ and tools/nf/. Python: the imports of
python/neuron_fabric and python/neuron_fabric_lab. bench/, tests/ and examples/ may use every layer.

Prints file:line for each violation and exits with 1 if there is one. A rule that names a file or
folder that does not exist is a violation, too, as is an exception that no include needs.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

# The layers that each layer of src/ may include, besides itself.
BELOW = {
    "base": set(),
    "codec": {"base"},
    "transport": {"base"},
    "cxl": {"base", "codec"},
    "collective": {"base", "codec", "transport"},
    "runtime": {"base", "codec", "transport", "collective", "cxl"},
}
LOWEST_FIRST = list(BELOW)
SRC = {f"src/{layer}" for layer in BELOW}

# cuda/X may include src/X and the layers below it. Kernels (device/) and the host code of codecs share
# structs, so these two folders include each other.
CUDA_BELOW = {
    "base": set(),
    "device": {"base", "codec"},
    "codec": {"base", "device"},
    "transport": {"base"},
    "collective": {"base", "device", "codec", "transport"},
    "runtime": {"base", "device", "codec", "transport", "collective"},
}
CUDA = {f"cuda/{folder}" for folder in CUDA_BELOW}

COMMANDS = {f"tools/nf/{name}" for name in ("bench", "cxl", "plan", "profile", "quality", "replay")}
SUPPORT = "tools/nf/support"


def _cuda_rule(folder: str) -> set[str]:
    layer = "codec" if folder == "device" else folder
    return ({f"src/{name}" for name in (layer, *BELOW[layer])}
            | {f"cuda/{name}" for name in CUDA_BELOW[folder]})


# The areas that each area may include, besides itself.
ALLOWED = {
    **{f"src/{layer}": {f"src/{name}" for name in below} for layer, below in BELOW.items()},
    **{f"cuda/{folder}": _cuda_rule(folder) for folder in CUDA_BELOW},
    SUPPORT: SRC,
    **{command: {SUPPORT, *SRC} for command in COMMANDS},
    "tools/nf": {SUPPORT, *COMMANDS, *SRC},
    "python/csrc": {"tools/nf/bench", *SRC},  # the extension runs nf's benchmark over c10d
}

# The only files outside cuda/ that may include it: they are left out of builds without CUDA.
CUDA_USERS = {
    "python/csrc/cuda_backend.cc",
    "tools/nf/bench/cuda_ops.cc",
    "tools/nf/bench/cuda_ops.h",
    "tools/nf/bench/nccl.cc",
}

# Headers of one command of nf that others share: (header, the folders that include it).
SHARED = {
    "tools/nf/bench/dense_ring.h": {"tools/nf/replay"},
    "tools/nf/bench/rank_processes.h": {"tools/nf/replay"},
    "tools/nf/plan/shapes.h": {"tools/nf/profile", "tools/nf/quality", "tools/nf/replay"},
    "tools/nf/profile/text.h": {"tools/nf/cxl", "tools/nf/replay"},
}

# Single includes that point up: (file, header).
EXCEPTIONS = {
    ("cuda/device/orthonormal.cuh", "src/collective/low_rank_limits.h"),  # constants
}

FRONT, LAB = "neuron_fabric", "neuron_fabric_lab"
# The folders of the front that each of these may import, besides itself; "" is the package itself. The
# other folders of the front may import all of it. The lab may import everything.
PYTHON_ALLOWED = {
    "support": {""},
    "ranks": {"support"},
    "telemetry": {"support"},
    "report": {"support", "summary", "telemetry"},
}

SOURCES = (".h", ".cc", ".cuh", ".cu")
INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
STANDARD = re.compile(r"[a-z_0-9]+")  # <vector>, <cstdint>: no folder, no extension
PUBLIC = "neuron_fabric/"
INCLUDE_DIRS = ("src", "", "tools")  # relative to the root: "codec/x.h", "cuda/x/y.h", "nf/x/y.h"


def includes(path: Path) -> Iterator[tuple[int, str | None, str | None]]:
    """(line number, quoted name or None, angled name or None) of each #include."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1], match[2]


def public_layer(root: Path, name: str, seen: tuple[str, ...] = ()) -> str:
    """The layer of a public header: that of the source of the same name. For a header without source,
    the highest layer of the headers that it includes."""
    layers = [path.relative_to(root / "src").parts[0]
              for path in (root / "src").rglob(Path(name).stem + ".cc")]
    header = root / "include" / name
    if not layers and header.exists():
        layers = [public_layer(root, quoted, (*seen, name)) for _, quoted, _ in includes(header)
                  if quoted and quoted.startswith(PUBLIC) and quoted not in (*seen, name)]
    return max((layer for layer in layers if layer in BELOW), key=LOWEST_FIRST.index, default="base")


def area_of(root: Path, path: Path) -> str:
    """The folder by which ALLOWED names a file: two levels of src/ and cuda/, three of tools/nf."""
    parts = path.relative_to(root).parts
    if parts[0] == "include":
        return f"src/{public_layer(root, '/'.join(parts[1:]))}"
    depth = {"src": 2, "cuda": 2, "python": 2, "tools": 3}.get(parts[0], 1)
    return "/".join(parts[:min(depth, len(parts) - 1)])


def target_of(root: Path, path: Path, name: str) -> Path | None:
    """The file that `path` includes as `name`. None for a header of another library. A file of this
    project that does not exist is assumed where the first include folder has its parent."""
    if name.startswith(PUBLIC):
        return root / "include" / name
    candidates = [path.parent / name, *(root / folder / name for folder in INCLUDE_DIRS)]
    for candidate in candidates:
        if candidate.exists():
            return candidate.resolve()
    tops = {area.split("/")[-1]: area for area in SRC}
    return root / tops[name.split("/")[0]] / name.partition("/")[2] if name.split("/")[0] in tops else None


def cpp_files(root: Path) -> list[Path]:
    folders = ("include", "src", "cuda", "python/csrc", "tools/nf")
    return sorted(path for folder in folders for path in (root / folder).rglob("*")
                  if path.suffix in SOURCES)


def _include_violation(root: Path, path: Path, target: Path, used: set) -> str | None:
    """The area that `path` must not include; None if the include is allowed."""
    here, there = area_of(root, path), area_of(root, target)
    place = path.relative_to(root).as_posix()
    name = target.relative_to(root).as_posix()
    if there in (here, *ALLOWED.get(here, set())):
        return None
    if (place, name) in EXCEPTIONS or here in SHARED.get(name, set()):
        used.add((place, name) if (place, name) in EXCEPTIONS else (name, here))
        return None
    if there in CUDA and here not in CUDA | SRC and place in CUDA_USERS:
        used.add(place)
        return None
    return there


def cpp_violations(root: Path, used: set) -> Iterator[str]:
    """`used` receives the exceptions that were needed."""
    root = root.resolve()
    for path in cpp_files(root):
        place = path.relative_to(root)
        is_public = place.parts[0] == "include"
        here = area_of(root, path)
        if here not in ALLOWED:
            yield f"{place}:1: in no layer: {here} has no rule in scripts/check_layers.py"
            continue
        for number, quoted, angled in includes(path):
            where = f"{place}:{number}"
            if is_public and angled and not STANDARD.fullmatch(angled):
                yield f"{where}: a public header includes <{angled}>, which is not of the standard library"
            elif is_public and quoted and not quoted.startswith(PUBLIC):
                yield f'{where}: a public header includes "{quoted}", which is not public'
            elif quoted and (target := target_of(root, path, quoted)) is not None:
                if not target.is_relative_to(root):
                    continue
                if (there := _include_violation(root, path, target, used)) is not None:
                    yield f'{where}: {here} includes "{quoted}" of {there}'


def imports(path: Path, package: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """(line number, parts of the absolute module name) of each import, `from a import b` as a.b."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            for alias in node.names:
                yield node.lineno, (*base, alias.name)


def python_violations(root: Path) -> Iterator[str]:
    for path in sorted((root / "python" / FRONT).rglob("*.py")):
        place = path.relative_to(root)
        package = path.relative_to(root / "python").parent.parts
        folder = package[1] if len(package) > 1 else ""
        for number, module in imports(path, package):
            if module[0] == LAB:
                yield f"{place}:{number}: {FRONT} imports {LAB}"
            elif module[0] == FRONT and folder in PYTHON_ALLOWED:
                inner = module[1] if len(module) > 1 else ""
                if inner not in (folder, *PYTHON_ALLOWED[folder]):
                    yield f"{place}:{number}: {FRONT}/{folder} imports {'.'.join(module)}"


def stale_rules(root: Path, used: set) -> Iterator[str]:
    """The files and folders of the rules that do not exist, and the exceptions that nothing needs."""
    files = {*CUDA_USERS, *SHARED, *(name for pair in EXCEPTIONS for name in pair)}
    files |= {f"python/{FRONT}/__init__.py", f"python/{LAB}/__init__.py"}
    folders = {*ALLOWED, *(folder for users in SHARED.values() for folder in users)}
    folders |= {f"python/{FRONT}/{folder}" for folder in PYTHON_ALLOWED}
    for name in sorted(files):
        if not (root / name).is_file():
            yield f"scripts/check_layers.py: names the file {name}, which does not exist"
    for name in sorted(folders):
        if not (root / name).is_dir():
            yield f"scripts/check_layers.py: names the folder {name}, which does not exist"
    unused = {*EXCEPTIONS, *((name, user) for name, users in SHARED.items() for user in users)} - used
    for name, other in sorted(unused):
        yield f"scripts/check_layers.py: allows {name} with {other}, which no include needs"
    for name in sorted(CUDA_USERS - used):
        yield f"scripts/check_layers.py: allows {name} to include cuda/, which it does not"


def violations(root: Path) -> list[str]:
    """All violations of the tree, without stale rules."""
    return [*cpp_violations(root, set()), *python_violations(root)]


def main() -> int:
    root, used = Path(__file__).resolve().parents[1], set()
    found = [*cpp_violations(root, used), *python_violations(root), *stale_rules(root, used)]
    print("\n".join(found) if found else "layers: includes and imports point down")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
