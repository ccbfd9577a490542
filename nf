#!/usr/bin/env bash
# The nf command from a checkout: builds it where sources changed, then runs it.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
program=$root/build/release/tools/nf/nf
targets=(nf)
case ${1:-} in
  calibrate | compare | demo | train) targets+=(nf_python) ;;  # helpers that need the extension
  bench) if [[ " $* " =~ [\ =]c10d\  ]]; then targets+=(nf_python); fi ;;
esac
if [[ ! -x $program ]]; then echo "nf: building, once" >&2; fi
if ! log=$("$root/scripts/build.sh" release "${targets[@]}" 2>&1); then
  printf '%s\nnf: the build failed; "make setup" installs what it needs\n' "$log" >&2
  exit 1
fi
# What helpers run in.
if [[ -z ${NF_PYTHON:-} && -x $root/.venv/bin/python ]]; then
  export NF_PYTHON=$root/.venv/bin/python
fi
export PYTHONPATH=$root/python${PYTHONPATH:+:$PYTHONPATH}
exec "$program" "$@"
