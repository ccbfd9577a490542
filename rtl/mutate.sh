#!/usr/bin/env bash
# rtl/mutate.sh COUNT: runs the tests on the first COUNT mutants of the RTL (rtl/mutants.py), each until
# a test fails. The name of that test, or "survives", is stored in build/rtl/mutants. A mutant that was
# detected before is skipped while its module is unchanged; a survivor is tried again.
# rtl/mutate.sh one ID: the same for one mutant, compiled alone.
#
# Most mutants are compiled into one program, which selects one at run time. Those in declarations and
# in statements of several lines are compiled alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$PWD/build/rtl/mutants/work
if [[ $1 == one ]]; then work=$work/$2; fi
rm -rf "$work"
export RTL_OUT=$work RTL_SRC=$work/src
# shellcheck source=rtl/bench.sh
source rtl/bench.sh
warnings=(-Wno-lint -Wno-style "$PWD/rtl/tb/mutant.cc")  # a mutant counts only if a test detects it
optimise=-O1
open=$work/open  # "NUMBER ID FILE" of the mutants that no test has detected; number 0 is the original

store() {  # id, the file for its result, result
  echo "$3" >"$2"
  echo "$1: $3"
}

# Prints the first test that fails, hangs or violates an assertion.
first_failure() {  # number of the mutant, program, tests
  local arguments
  while read -ra arguments; do
    (NF_MUTANT=$1 timeout 900 "$2" "${arguments[@]}" </dev/null) >/dev/null 2>&1 ||
      { echo "${arguments[*]:-all}"; return; }
  done <<<"$3"
}

try_one() {  # name of the build, program, tests, number, id, file
  local failure
  failure=$(first_failure "$4" "$2" "$3" 2>/dev/null)
  if [[ -n $failure ]]; then store "$5" "$6" "$1: $failure" >&2; else echo "$4 $5 $6"; fi
}
export -f store first_failure try_one

# Tries the open mutants of a module, or of all, in one program.
try_open() {  # name of the build, tests, module, command that builds the program...
  local name=$1 tests=$2 chosen program failure
  chosen=$(grep " $3" "$open") || return 0
  shift 3
  if ! program=$("$@" 2>"$work/build.log"); then
    if [[ $chosen != 0\ * ]]; then cat "$work/build.log" >&2; exit 1; fi
    read -r _ id file <<<"$chosen"
    store "$id" "$file" "does not build"
    : >"$open"
    return
  fi
  failure=$(first_failure 0 "$program" "$tests")
  if [[ $chosen != 0\ * && -n $failure ]]; then
    echo "mutate: $name: $failure fails without a mutant" >&2
    exit 1
  fi
  xargs -P 2 -L 1 bash -c 'try_one "$@"' try_one "$name" "$program" "$tests" <<<"$chosen" >"$open.left"
  sort -u <(comm -23 <(sort "$open") <(sort <<<"$chosen")) "$open.left" -o "$open"
}

try_builds() {
  try_open adder "" nf_fp32_adder adder_bench
  try_open small "$(small_tests)" "" reducer_bench _small 5 "${small[@]}"
  try_open "small, latency 4" "$(small_tests)" "" reducer_bench _small4 4 "${small[@]}"
  try_open "64 workers" "$(full_tests 20000)" "" reducer_bench 5
}

# Tries the proof of a mutant that no simulation has detected.
try_proof() {  # id, file
  local module=${1%%.*} result=survives
  if [[ " ${units[*]} " == *" $module "* ]]; then
    python3 rtl/mutants.py write "$1" "$work/src"
    prove "$module" >/dev/null 2>&1 || result="proof of $module"
  fi
  store "$1" "$2" "$result"
}

if [[ $1 == one ]]; then
  echo "0 $2 $(python3 rtl/mutants.py result "$2")" >"$open"
  if [[ $2 != nf_skid_buffer* ]]; then  # which is not a part of the reducer
    python3 rtl/mutants.py write "$2" "$work/src"
    optimise=-O0
    try_builds
  fi
else
  python3 rtl/mutants.py join "$1" "$work/src" >"$open"
  python3 rtl/mutants.py open "$1" | grep -vxFf <(cut -d ' ' -f 2 "$open") >"$work/others" || true
  try_builds
fi
while read -r _ id file; do try_proof "$id" "$file"; done <"$open"
if [[ $1 != one ]]; then RTL_JOBS=1 xargs -r -P 2 -n 1 rtl/mutate.sh one <"$work/others"; fi
