# shellcheck shell=bash disable=SC2034  # used by the scripts that source this
# Sourced by the scripts of this folder, in the root of the repository: builds and lists the tests.

out=${RTL_OUT:-$PWD/build/rtl}
src=${RTL_SRC:-$PWD/rtl/src}  # the modules to test
mkdir -p "$out"
package=("$PWD/rtl/lint/waivers.vlt" "$src/nf_reducer_pkg.sv")
warnings=(-Wall)
optimise=-O2  # of the compiler

# Builds a testbench if it is out of date. Prints the path of the program.
bench() {  # name, top module, verilator's files and options...
  local name=$1 top=$2 cache=()
  shift 2
  if command -v ccache >/dev/null; then cache=(OBJCACHE=ccache); fi
  env "${cache[@]}" verilator --cc --exe --build -j "${RTL_JOBS:-$(nproc)}" --assert --trace -O3 \
    "${warnings[@]}" --Mdir "$out/$name" -o bench --top-module "$top" -y "$src" -y "$PWD/rtl/formal" \
    -MAKEFLAGS "OPT_FAST=$optimise" "${package[@]}" "$@" -CFLAGS "-std=c++20 $optimise -Wall -Wextra" \
    "$PWD/rtl/tb/$top"/*.cc >"$out/$name.log" 2>&1 ||
    { cat "$out/$name.log" >&2; return 1; }
  echo "$out/$name/bench"
}

adder_bench() {
  bench fp32_adder nf_fp32_adder "$src/nf_fp32_adder.sv" -Wno-UNUSEDPARAM
}

# Builds the testbench of the reducer with the bound assertions, which read the reset synchronously.
reducer_bench() {  # latency, or name, latency and parameters
  local name=reducer$1 latency=${2:-$1}
  if (($# > 1)); then shift 2; else set -- -GRECORDS=32768; fi
  bench "$name" nf_reducer "$PWD/rtl/lint/public.vlt" "$src/nf_reducer.sv" \
    "$PWD/rtl/formal/nf_reducer_checks.sv" "$PWD/rtl/formal/nf_pipeline_checks.sv" \
    -Wno-SYNCASYNCNET -GLATENCY="$latency" "$@" -CFLAGS -DNF_LATENCY="$latency"
}

# A reducer with few of everything, in numbers that are no powers of two, and limits that tests reach.
small=(-GPLANES=4 -GWORKERS=20 -GREGIONS=3 -GRECORDS=48 "-GLAST_GENERATION=32'd1000" "-GMAX_ERRORS=32'd99")

# The tests of the small reducer and of the one with 64 workers, as arguments of the testbench.
small_tests() {
  echo "registers 4 20 3 48
limits 1000 99
faults
random fp32,g_ternary,identity 5000
random identity 2000
random fp32 2000
random g_binary 2000
resets fp32,g_ternary,identity 5
concurrent g_binary,fp32,identity 10"
}
full_tests() {  # lines per mode
  echo "registers 8 64 4 32768
random identity $1
random fp32 $1
random g_binary $1
random g_ternary $1
random identity,fp32,g_binary,g_ternary $1
concurrent g_binary,fp32,g_ternary 5
resets identity,fp32,g_binary,g_ternary 20"
}

# Proves the assertions of rtl/formal about a module.
units=(nf_count_adder nf_trit_decoder nf_skid_buffer)
prove() {  # module
  local steps=1
  if [[ $1 == nf_skid_buffer ]]; then steps=24; fi
  yosys -q -l "$out/$1.proof" -p "
    read_verilog -formal -sv $src/$1.sv rtl/formal/nf_stream_check.sv rtl/formal/${1}_proof.sv
    prep -top ${1}_proof; flatten; async2sync; dffunmap; opt_clean
    sat -verify -prove-asserts -set-assumes -seq $steps" >/dev/null || { tail -n 40 "$out/$1.proof"; return 1; }
  echo "proved: ${1}_proof, $steps steps"
}
