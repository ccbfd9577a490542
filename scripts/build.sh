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

# NF_CUDA (AUTO, ON, OFF) applies to `release`; the other presets set it.
options=()
if [[ $preset == release && -n ${NF_CUDA:-} ]]; then options=(-D NF_CUDA="$NF_CUDA"); fi

# Configure again if .venv has changed: it may contain PyTorch or nvcc now.
folder=build/$preset
if [[ ! $folder/build.ninja -nt CMakePresets.json ||
      ! $folder/build.ninja -nt .venv/requirements.sha256 ]] ||
   { ((${#options[@]} > 0)) && ! grep -qs "^NF_CUDA:.*=$NF_CUDA\$" "$folder/CMakeCache.txt"; }; then
  if ! cmake --preset "$preset" "${options[@]}" >/dev/null 9>&-; then
    rm -f "$folder/build.ninja"  # so that the next call configures again
    exit 1
  fi
fi
targets=()
if (($# > 0)); then targets=(--target "$@"); fi
cmake --build --preset "$preset" "${targets[@]}" 9>&-
