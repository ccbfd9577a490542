#!/usr/bin/env bash
# Formats the C++ and CUDA sources in place; with --check only reports the lines that differ.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mode=(-i)
if [[ ${1:-} == --check ]]; then mode=(--dry-run -Werror); fi

# Includes new files that git does not track yet, and leaves out deleted ones.
git ls-files -z --cached --others --exclude-standard '*.h' '*.cc' '*.cuh' '*.cu' |
  { while IFS= read -r -d '' file; do [[ ! -f $file ]] || printf '%s\0' "$file"; done; } |
  xargs -0 -r clang-format "${mode[@]}"
