#!/usr/bin/env bash
# Time to accuracy where links are slow: trains one model along each route, on hosts of its own that
# are joined by links of RATE (scripts/slow_links.sh; needs root), and keeps the results as
# FOLDER/ROUTE-seed1.json, from which scripts/results.py makes a page. A run that is there is not
# made again.
#
#   sudo bench/time_to_accuracy.sh [--rate 200mbit] [--steps 300] [--target 0.4] FOLDER ROUTE...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rate=200mbit steps=300 target=
while [[ ${1:-} == --* ]]; do
  case $1 in
    --rate | --steps | --target) declare "${1#--}=${2:?$1 needs a value}" ;;
    *) echo "time_to_accuracy: there is no option $1" >&2; exit 2 ;;
  esac
  shift 2
done
(($# >= 2)) || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
folder=$1
shift

# Of batch and model, so that computing takes about as long as 4-bit gradients on the links.
options=(gpt --size small --batch 1 --ranks 4 --steps "$steps" --eval-every 20)
[[ -z $target ]] || options+=(--target "$target")
export PYTHONPATH=python
mkdir -p "$folder"
for route in "$@"; do
  name=$(.venv/bin/python -c 'import sys
from neuron_fabric.train.options import file_name
print(file_name(sys.argv[1]))' "$route")
  [[ ! -f $folder/$name-seed1.json ]] || continue
  echo "-- $route"
  scripts/slow_links.sh --rate "$rate" --launcher torch -- .venv/bin/python -m neuron_fabric.train \
    "${options[@]}" --route "$route" --out "nf-train/slow_links/$name"
  cp "nf-train/slow_links/$name/result.json" "$folder/$name-seed1.json"
done
