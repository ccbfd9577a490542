#!/usr/bin/env python3
"""Checks that vector instructions stay in the namespaces of their targets.

check_vector_symbols.py OBJDUMP OBJECT...

A *_simd.cc file is compiled once per target, each time into a namespace such as N_AVX2. A function
outside these namespaces must not be compiled for a target, as happens to an inline function of a
header that is included between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE: it is a weak symbol,
the linker keeps an arbitrary copy, and an older CPU then executes instructions that it lacks. So
no function outside a target's namespace may contain a VEX or EVEX instruction.

Exits with 77 and the reason if the check is not possible.
"""

import re
import subprocess
import sys

FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
VECTOR = re.compile(r"^\s*[0-9a-f]+:\s+(v[a-z0-9]+|k(?:mov|and|or|xor|test|unpck|shift|not|add)\w*)\b")
SKIPPED = 77


def functions_with_vector_code(objdump, path):
    """Demangled names of the functions of an object that contain VEX or EVEX instructions."""
    text = subprocess.run([objdump, "-d", "-C", "--no-show-raw-insn", path], check=True,
                          capture_output=True, text=True).stdout
    if "x86-64" not in text:
        print(f"skipped: {path} is not x86-64")
        sys.exit(SKIPPED)
    name, found = "", set()
    for line in text.splitlines():
        if match := FUNCTION.match(line):
            name = match[1]
        elif VECTOR.match(line):
            found.add(name)
    return found


def main():
    objdump, *objects = sys.argv[1:]
    simd = [path for path in objects if path.endswith("_simd.cc.o")]
    plain = [path for path in objects if path not in simd]
    if any(functions_with_vector_code(objdump, path) for path in plain):
        print("skipped: the baseline of this build includes AVX")
        return SKIPPED
    escaped, contained = [], 0
    for path in simd:
        for name in functions_with_vector_code(objdump, path):
            if re.search(r"\bN_[A-Z0-9_]+::", name):
                contained += 1
            else:
                escaped.append(f"{path}: {name}")
    print("\n".join(escaped) or f"{contained} vector functions, each in its target's namespace")
    if contained == 0:
        print("no vector code found: the format of objdump's output may have changed")
    return 1 if escaped or contained == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
