#!/usr/bin/env bash
# scripts/test.sh [STAGE...]: runs the named stages, or all of them. FUZZ_SECONDS (30) is shared by
# all fuzz targets. Every stage runs even where an earlier one failed; what it said is kept in
# build/test, and its last lines are repeated above the summary where it failed.
# shellcheck disable=SC2317  # stages are called by name
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all_stages=(format layers python unit rtl asan tsan fuzz torch wheel examples cuda)
more_stages=(arm)  # run where they are named
logs=build/test
skip_mark=$logs/skipped  # a file, since any exit status may be some tool's failure (77: libFuzzer's)
last_lines=40
mkdir -p "$logs"

skip() {
  echo "skipped: $*"
  touch "$skip_mark"
  exit 0
}

# Old compilers' sanitizers cannot place their shadow memory under strong address randomisation.
fixed_addresses() {
  if setarch -R true 2>/dev/null; then setarch -R "$@"; else "$@"; fi
}

run_ctest() {  # preset
  export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)}
  fixed_addresses ctest --preset "$1"
}

stage_format() { scripts/format.sh --check; }

stage_layers() { python3 scripts/check_layers.py; }

# The tests of the package are the stage torch.
stage_python() {
  local files
  files=$(git ls-files --cached --others --exclude-standard '*_test.py' ':!python')
  [[ -n $files ]] || skip "there are no Python tests"
  [[ -x .venv/bin/python ]] || { echo "there is no .venv: run make setup"; return 1; }
  # shellcheck disable=SC2086  # a list of words
  .venv/bin/python -m pytest -q $files
}

# Ranks share the cores: one thread each.
stage_torch() {
  scripts/build.sh release nf nf_python
  PYTHONPATH=python OMP_NUM_THREADS=1 .venv/bin/python -m pytest -q --durations=12 python/tests
}

# What pip installs, away from this tree: in an environment of its own that borrows .venv's packages.
stage_wheel() {
  local away
  away=$(mktemp -d)
  # shellcheck disable=SC2064  # the value of now
  trap "rm -rf '$away'" EXIT
  .venv/bin/python -m venv --without-pip "$away"
  .venv/bin/python -c 'import site; print(site.getsitepackages()[0])' \
    >"$("$away/bin/python" -c 'import site; print(site.getsitepackages()[0])')/borrowed.pth"
  . scripts/ccache.sh
  export CXX=${CXX:-c++}  # not the name that Python was built with: ccache knows c++ from release
  .venv/bin/python -m pip --python "$away/bin/python" install --quiet --disable-pip-version-check \
    --no-build-isolation --no-deps .
  unset PYTHONPATH NF_PYTHON
  cd "$away"
  bin/nf info
  bin/nf report --help
  bin/nf doctor --quick
  bin/python - <<'END'
import torch
from neuron_fabric import _C, __version__, attach
assert __version__ == _C.__version__, (__version__, _C.__version__)
print("neuron_fabric", __version__, "in", _C.__file__)
END
}

stage_unit() {
  scripts/build.sh dev
  run_ctest dev
}

stage_asan() {
  scripts/build.sh asan
  run_ctest asan
}

# Builds and runs only the tests whose label the test preset names; nf_test gives test and target the
# same name.
run_labelled() {
  scripts/build.sh "$1" nf_base  # configures, so that ctest knows the labels
  local targets
  targets=$(ctest --preset "$1" --show-only | sed -n 's/^ *Test *#[0-9]*: //p')
  # shellcheck disable=SC2086  # a list of words
  scripts/build.sh "$1" $targets
  run_ctest "$1"
}

stage_tsan() { run_labelled tsan; }

# Seeds in fuzz/corpus/<target> are read only; what a run discovers stays in the build folder.
stage_fuzz() {
  scripts/build.sh asan fuzz/all
  local programs=() corpora program name seconds
  for program in build/asan/fuzz/fuzz_*; do
    if [[ -f $program && -x $program ]]; then programs+=("$program"); fi
  done
  ((${#programs[@]} > 0)) || { echo "no fuzz targets were built"; return 1; }
  seconds=$((${FUZZ_SECONDS:-30} / ${#programs[@]}))
  for program in "${programs[@]}"; do
    name=${program##*/}
    corpora=("build/asan/corpus/$name")
    if [[ -d fuzz/corpus/$name ]]; then corpora+=("fuzz/corpus/$name"); fi
    mkdir -p "${corpora[0]}" build/asan/findings
    echo "-- $name"
    fixed_addresses "$program" -max_total_time=$((seconds > 0 ? seconds : 1)) -timeout=10 \
      -print_final_stats=1 -verbosity=0 -artifact_prefix="build/asan/findings/$name-" \
      "${corpora[@]}" 2>&1
  done
}

# Each example is a project of its own: built by an installed library, away from this tree. Its
# program has the name of its folder.
stage_examples() {
  scripts/build.sh release
  local away example name
  away=$(mktemp -d)
  # shellcheck disable=SC2064  # the value of now
  trap "rm -rf '$away'" EXIT
  cmake --install build/release --prefix "$away/prefix" >/dev/null
  for example in examples/*/CMakeLists.txt; do
    name=$(basename "$(dirname "$example")")
    echo "-- $name"
    cp -r "examples/$name" "$away/$name"
    cmake -G Ninja -S "$away/$name" -B "$away/$name/build" -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_PREFIX_PATH="$away/prefix" >/dev/null
    cmake --build "$away/$name/build"
    "$away/$name/build/$name"
  done
}

# Compiles and links; the tests themselves skip where there is no device.
stage_cuda() {
  command -v nvcc >/dev/null || skip "there is no nvcc"
  run_labelled cuda
  scripts/build.sh cuda nf nf_python  # the extension with CUDA, beside the one that is tested
}

# The codecs on NEON. The cross compiler and the emulator are not in packages.txt.
stage_arm() {
  command -v aarch64-linux-gnu-g++ >/dev/null || skip "install g++-aarch64-linux-gnu"
  command -v qemu-aarch64-static >/dev/null || skip "install qemu-user-static"
  scripts/arm_packages.sh
  scripts/build.sh arm tests/base/all tests/codec/all
  ctest --test-dir build/arm/tests/base --output-on-failure
  ctest --test-dir build/arm/tests/codec --output-on-failure --parallel "$(nproc)"
}

# The RTL against its reference and against the model's traces: a few minutes.
stage_rtl() {
  command -v verilator >/dev/null || skip "there is no verilator"
  command -v yosys >/dev/null || skip "there is no yosys"
  scripts/build.sh dev nf
  RTL_LINES=20000 TRACE_LINES=20000 rtl/run.sh lint prove simulate replay
}

# Sets cpu to the seconds of all that has ended: bash tells them only in the shell that waited for it.
read_cpu() {
  times >"$logs/times"
  cpu=$(awk -F '[ms ]+' 'NR == 2 { print int(60 * ($1 + $3) + $2 + $4) }' "$logs/times")
}

stages=("$@")
((${#stages[@]} > 0)) || stages=("${all_stages[@]}")
for stage in "${stages[@]}"; do
  if [[ " ${all_stages[*]} ${more_stages[*]} " != *" $stage "* ]]; then
    echo "test: no stage $stage; there are: ${all_stages[*]} ${more_stages[*]}" >&2
    exit 2
  fi
done

summary=() failed=()
for stage in "${stages[@]}"; do
  printf '\n==> %s  (%d s so far)\n' "$stage" "$SECONDS"
  started=$SECONDS
  read_cpu
  cpu_before=$cpu
  rm -f "$skip_mark"
  set +e
  (
    set -e
    "stage_$stage"
  ) 2>&1 | tee "$logs/$stage.log"
  result=${PIPESTATUS[0]}
  set -e
  if ((result != 0)); then
    word=FAILED
    failed+=("$stage")
  elif [[ -f $skip_mark ]]; then
    word=skipped
  else
    word=passed
  fi
  read_cpu
  line=$(printf '%-9s %-8s %5d s, %5d s of CPU' "$stage" "$word" $((SECONDS - started)) \
                $((cpu - cpu_before)))
  if passed=$(grep 'tests passed' "$logs/$stage.log"); then line+="   $passed"; fi
  summary+=("$line")
done

for stage in "${failed[@]}"; do
  printf '\n==> the end of what %s said; all of it: %s\n' "$stage" "$logs/$stage.log"
  tail -n "$last_lines" "$logs/$stage.log"
done

printf '\n==> summary  (%d s)\n' "$SECONDS"
printf '%s\n' "${summary[@]}"
((${#failed[@]} == 0))
