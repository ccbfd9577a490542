#!/usr/bin/env bash
# rtl/run.sh [STEP...]: lints, simulates and synthesises the reducer. Steps, in order; without a name
# the first three:
#   lint        verilator -Wall over every configuration
#   simulate    test benches, random traffic and traces against the reference
#   prove       properties of handshakes and adders (needs SymbiYosys and z3)
#   synthesise  cells and depth (yosys)
#   place       frequency on an ECP5 (nextpnr)
# LINES (200000) is how many lines are written in each mode of the simulation. What is made lies in
# build/rtl.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=$PWD/build/rtl
mkdir -p "$out"

source_files=("$PWD/rtl/lint/waivers.vlt" "$PWD/rtl/src/nf_reducer_pkg.sv")

# A test bench: builds it where it is not up to date. Prints where it lies.
bench() {  # name, top module, folder of its C++, verilator's options...
  local name=$1 top=$2 folder=$PWD/rtl/tb/$3
  shift 3
  local cache=()
  if command -v ccache >/dev/null; then cache=(OBJCACHE=ccache); fi
  env "${cache[@]}" verilator --cc --exe --build -j "$(nproc)" --assert --trace -O3 -Wall \
    --Mdir "$out/$name" -o bench --top-module "$top" -y "$PWD/rtl/src" -y "$PWD/rtl/formal" \
    -MAKEFLAGS OPT_FAST=-O2 "${source_files[@]}" "$@" -CFLAGS "-std=c++20 -O2 -Wall -Wextra" "$folder"/*.cc >"$out/$name.log" 2>&1 ||
    { cat "$out/$name.log" >&2; return 1; }
  echo "$out/$name/bench"
}

step_lint() {
  local latency workers
  for latency in 5 4; do
    for workers in 64:8 8:5 1:2; do
      echo "lint: latency $latency, ${workers%:*} workers, ${workers#*:} planes"
      verilator --lint-only -Wall -y rtl/src "${source_files[@]}" rtl/src/nf_reducer.sv \
        --top-module nf_reducer -GLATENCY="$latency" -GWORKERS="${workers%:*}" -GPLANES="${workers#*:}"
    done
  done
}

step_simulate() {
  local lines=${LINES:-200000} program mode latency
  for latency in 5 4; do
    program=$(bench "reducer$latency" nf_reducer nf_reducer "$PWD/rtl/src/nf_reducer.sv" \
      -GRECORDS=16384 -GLATENCY=$latency -CFLAGS -DNF_LATENCY=$latency)
    echo "-- latency $latency"
    "$program" registers
    for mode in identity fp32 g_binary g_ternary; do
      printf '%-10s ' "$mode"
      "$program" random "$mode" "$lines"
    done
    printf '%-10s ' "all four"
    "$program" random identity,fp32,g_binary,g_ternary "$lines"
  done
}

steps=("$@")
((${#steps[@]} > 0)) || steps=(lint simulate prove)
for step in "${steps[@]}"; do
  declare -F "step_$step" >/dev/null || { echo "rtl: no step $step" >&2; exit 2; }
  echo "==> $step"
  "step_$step"
done
