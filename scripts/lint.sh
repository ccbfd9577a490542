#!/usr/bin/env bash
# Format, layers and clang-tidy over what ships: src/ and tools/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/format.sh --check
python3 scripts/check_layers.py
scripts/build.sh dev  # makes the generated headers and the compile commands
run-clang-tidy -quiet -p build/dev -j "$(nproc)" "^$PWD/(src|tools)/"
