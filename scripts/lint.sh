#!/usr/bin/env bash
# Checks the format, the layers, and src/ and tools/ with clang-tidy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/format.sh --check
python3 scripts/check_layers.py
scripts/build.sh dev  # generates headers and the compile commands
run-clang-tidy -quiet -p build/dev -j "$(nproc)" "^$PWD/(src|tools)/"
