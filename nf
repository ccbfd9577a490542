#!/usr/bin/env bash
# The nf command from a checkout: builds it where sources changed, then runs it.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
program=$root/build/release/tools/nf/nf
if [[ ! -x $program ]]; then echo "nf: building, once" >&2; fi
if ! log=$("$root/scripts/build.sh" release nf 2>&1); then
  printf '%s\nnf: the build failed; "make setup" installs what it needs\n' "$log" >&2
  exit 1
fi
exec "$program" "$@"
