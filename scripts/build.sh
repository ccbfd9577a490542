#!/usr/bin/env bash
# scripts/build.sh PRESET [TARGET...]: configures build/PRESET if needed, then builds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${1:?usage: scripts/build.sh PRESET [TARGET...]}
shift

export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
. scripts/ccache.sh

# One build per preset at a time: several processes may call ./nf at once.
mkdir -p build
exec 9>"build/$preset.lock"
flock 9

# Configure again if .venv has changed: it may contain PyTorch now.
folder=build/$preset
if [[ ! $folder/build.ninja -nt CMakePresets.json ||
      ! $folder/build.ninja -nt .venv/requirements.sha256 ]]; then
  cmake --preset "$preset" >/dev/null 9>&-
fi
targets=()
if (($# > 0)); then targets=(--target "$@"); fi
cmake --build --preset "$preset" "${targets[@]}" 9>&-
