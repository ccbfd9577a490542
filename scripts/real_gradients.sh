#!/usr/bin/env bash
# scripts/real_gradients.sh FOLDER NF OUT.jsonl [RANKS...]: measures the error of waterfill and
# dynamiq with the program NF on each FOLDER/*.npy, for each number of ranks (8), and appends the
# results to OUT.jsonl; scripts/real_gradients_table.py prints them as a table. JOBS=N runs N at a time.
set -euo pipefail

fail() {
  echo "real_gradients: $*" >&2
  exit 2
}

(($# >= 3)) || fail "usage: scripts/real_gradients.sh FOLDER NF OUT.jsonl [RANKS...]"
folder=$1 nf=$2 out=$3
shift 3
ranks=("$@")
((${#ranks[@]} > 0)) || ranks=(8)
command -v "$nf" >/dev/null || fail "program $nf not found"
shopt -s nullglob
files=("$folder"/*.npy)
((${#files[@]} > 0)) || fail "no .npy files in $folder"

# A run does not keep all cores busy all the time, so several run side by side, as many as fit in
# memory: a run needs up to four times the size of its file.
jobs=$((($(nproc) + 3) / 4))
largest=$(stat -L -c %s "${files[@]}" | sort -n | tail -n 1)
available=$(awk '$1 == "MemAvailable:" { printf "%d", $2 * 1024 }' /proc/meminfo)
fitting=$((available / (4 * largest + 1)))
if ((fitting < jobs)); then jobs=$((fitting > 0 ? fitting : 1)); fi
jobs=${JOBS:-$jobs}

measure() {  # file ranks topology
  local lines
  if ! lines=$("$nf" quality --gradients "$1" --ranks "$2" --topology "$3" --trials 1 --json \
                 --codec waterfill:4,waterfill:5,dynamiq:4,dynamiq:5); then
    echo "real_gradients: failed: $1, $2 ranks, $3" >&2
    return 1
  fi
  {
    flock 9
    echo "$lines" >&9
  } 9>>"$out"
  echo "real_gradients: $1, $2 ranks, $3"
}
export nf out
export -f measure

for file in "${files[@]}"; do
  for n in "${ranks[@]}"; do
    for topology in ring tree direct; do
      printf '%s\0' "$file" "$n" "$topology"
    done
  done
done | xargs -0 -n 3 -P "$jobs" bash -c 'measure "$@"' measure
