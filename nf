#!/usr/bin/env bash
# Runs nf from the source tree. Builds it first if sources changed.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
program=$root/build/release/tools/nf/nf
targets=(nf)
case ${1:-} in
  calibrate | compare | demo | train) targets+=(nf_python) ;;  # they need the extension
  bench) if [[ " $* " =~ [\ =]c10d\  ]]; then targets+=(nf_python); fi ;;
esac
if [[ ! -x $program ]]; then echo "nf: building for the first time" >&2; fi
if ! log=$("$root/scripts/build.sh" release "${targets[@]}" 2>&1); then
  printf '%s\nnf: the build failed; "make setup" installs its dependencies\n' "$log" >&2
  exit 1
fi
# The Python of the helpers.
if [[ -z ${NF_PYTHON:-} && -x $root/.venv/bin/python ]]; then
  export NF_PYTHON=$root/.venv/bin/python
fi
export PYTHONPATH=$root/python${PYTHONPATH:+:$PYTHONPATH}
exec "$program" "$@"
