#!/usr/bin/env bash
# scripts/test.sh [STAGE...]: runs the named stages, or all of them; docs/testing.md describes them.
#
# All stages run even if one fails. The output of each is kept in build/test/STAGE.log; the last lines
# of a failed stage are repeated above the summary. If several stages are named, two run at a time:
# stages that mostly compile run at low priority and fill the waits of the others.
#
# FUZZ_SECONDS (30) is shared by all fuzz targets. NF_TEST_TRACKS=1 runs one stage at a time.
# shellcheck disable=SC2317  # stages are called by name
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The two tracks, each in the order in which its stages run. Both start when `build` has finished. The
# track that ends first runs the stages of either track, until the other ends, too.
compile_track=(unit asan fuzz)
wait_track=(format layers python torch)
either_track=(tsan cuda rtl wheel examples)  # the longest first
all_stages=(build "${wait_track[@]}" "${either_track[@]}" "${compile_track[@]}")
named_only=(arm cuda_packages)  # not part of "all"
logs=build/test
last_lines=40
mkdir -p "$logs"

# Ends the stage. The marker is a file because any exit status may be a failure of some tool
# (77 is libFuzzer's).
skip() {
  echo "skipped: $*"
  touch "$skip_marker"
  exit 0
}

# Old sanitizer runtimes cannot place their shadow memory under strong address randomisation.
fixed_addresses() {
  if setarch -R true 2>/dev/null; then setarch -R "$@"; else "$@"; fi
}

run_ctest() {  # preset
  export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)}
  fixed_addresses ctest --preset "$1"
}

# Compiles the objects that other stages share, so that no two stages compile them at the same time.
stage_build() { scripts/build.sh release; }

stage_format() { scripts/format.sh --check; }

stage_layers() { python3 scripts/check_layers.py; }

# The tests of the scripts; stage torch runs those of the package.
stage_python() {
  local files
  files=$(git ls-files --cached --others --exclude-standard '*_test.py' ':!python')
  [[ -n $files ]] || skip "there are no Python tests"
  [[ -x .venv/bin/python ]] || { echo "there is no .venv: run make setup"; return 1; }
  # shellcheck disable=SC2086  # a list of words
  .venv/bin/python -m pytest -q $files
}

# The tests mostly wait, so more of them run than there are cores. Ranks share the cores: one thread
# each.
stage_torch() {
  scripts/build.sh release nf nf_python
  export PYTHONPATH=python OMP_NUM_THREADS=1
  .venv/bin/python -m pytest -q --durations=12 -n $(($(nproc) + 1)) --dist worksteal python/tests
}

# Installs the wheel outside this tree, in an environment that borrows the packages of .venv.
stage_wheel() {
  local away
  away=$(mktemp -d)
  # shellcheck disable=SC2064  # expand now
  trap "rm -rf '$away'" EXIT
  .venv/bin/python -m venv --without-pip "$away"
  .venv/bin/python -c 'import site; print(site.getsitepackages()[0])' \
    >"$("$away/bin/python" -c 'import site; print(site.getsitepackages()[0])')/borrowed.pth"
  . scripts/ccache.sh
  export CXX=${CXX:-c++}  # the compiler name of the release build, so that ccache finds its objects
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

# The tests that must run as compiled for release: label `release`.
stage_unit() {
  scripts/build.sh dev tests_release
  run_ctest unit
}

# All tests written in C++.
stage_asan() {
  scripts/build.sh asan
  run_ctest asan
}

# The tests that start threads: label `threads`.
stage_tsan() {
  scripts/build.sh tsan tests_threads
  run_ctest tsan
}

# Seeds in fuzz/corpus/<target> are read only; new inputs stay in the build folder.
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

# Builds each example as a project of its own, outside this tree, against the installed library. The
# program has the name of its folder.
stage_examples() {
  scripts/build.sh release
  local away example name
  away=$(mktemp -d)
  # shellcheck disable=SC2064  # expand now
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

# Compiles and links everything for one architecture. Without a device the tests skip.
stage_cuda() {
  command -v nvcc >/dev/null || skip "there is no nvcc"
  scripts/build.sh cuda tests_cuda nf nf_python
  run_ctest cuda
}

# The device path with the compiler of the Python index, as on a machine without a CUDA toolkit.
stage_cuda_packages() {
  local folder=$PWD/build/test/cuda_packages package
  package=$(.venv/bin/python -c 'import sys, torch; sys.path.append("scripts")
import cuda_toolkit; print(cuda_toolkit.requirement_of(torch.version.cuda))')
  [[ -n $package ]] || skip "the index has no compiler for the CUDA of this PyTorch"
  rm -rf "$folder" build/cuda_packages
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --target "$folder" "$package"
  . scripts/ccache.sh
  env -u CUDA_HOME -u LIBRARY_PATH CUDACXX="$(echo "$folder"/nvidia/cu*/bin/nvcc)" \
    cmake -S . -B build/cuda_packages -G Ninja -DCMAKE_BUILD_TYPE=Release -DNF_BUILD_TESTS=OFF \
    -DNF_BUILD_PYTHON=ON -DNF_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90-real >/dev/null
  env -u CUDA_HOME -u LIBRARY_PATH cmake --build build/cuda_packages --target nf_python
  PYTHONPATH=build/cuda_packages/python .venv/bin/python -c '
import torch, _C
assert (_C.devices, _C.architectures) == ("cuda", "90-real"), (_C.devices, _C.architectures)'
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

# The RTL against its reference and against traces of the cycle model.
stage_rtl() {
  command -v verilator >/dev/null || skip "there is no verilator"
  command -v yosys >/dev/null || skip "there is no yosys"
  NF=build/release/tools/nf/nf
  export NF
  scripts/build.sh release nf
  RTL_LINES=20000 TRACE_LINES=20000 rtl/run.sh lint prove simulate replay
}

# Writes the output of a stage to its log, and to the terminal as well if no other stage runs.
keep_output() {  # log
  if ((${#stages[@]} == 1)); then tee "$1"; else cat >"$1"; fi
}

# Runs one stage and writes its line of the summary to $logs/STAGE.result.
run_stage() {  # stage
  local stage=$1 started=$SECONDS word=passed status cpu counts
  local log=$logs/$stage.log skip_marker=$logs/$stage.skipped
  rm -f "$skip_marker" "$logs/$stage.result" "$logs/$stage.failed"
  set +e
  # `times` counts only children of its own shell: one subshell per stage.
  (
    (
      set -e
      "stage_$stage"
    )
    status=$?
    times >"$logs/$stage.times"
    exit "$status"
  ) 2>&1 | keep_output "$log"
  status=${PIPESTATUS[0]}
  set -e
  if ((status != 0)); then
    word=FAILED
    touch "$logs/$stage.failed"
  elif [[ -f $skip_marker ]]; then
    word=skipped
  fi
  cpu=$(awk -F '[ms ]+' 'NR == 2 { print int(60 * ($1 + $3) + $2 + $4) }' "$logs/$stage.times")
  counts=$(grep -E 'tests passed|tests failed|^[0-9]+ (passed|failed|skipped).* in [0-9.]+s' "$log" |
    paste -s -d ';') || true
  printf '%-9s %-8s %5d s, %5d s of CPU   %s\n' "$stage" "$word" $((SECONDS - started)) "$cpu" \
    "$counts" >"$logs/$stage.result"
  rm -f "$skip_marker" "$logs/$stage.times"
}

run_track() {  # stages in order
  local stage
  for stage; do
    printf '==> %s  (%d s so far)\n' "$stage" "$SECONDS"
    run_stage "$stage"
    if ((${#stages[@]} > 1)); then cat "$logs/$stage.result"; fi
  done
}

# Runs the stages of either track that the other track has not taken.
run_remaining() {  # stages in order
  local stage
  for stage; do
    if mkdir "$taken/$stage" 2>/dev/null; then run_track "$stage"; fi
  done
}

# Prints the stages of a list that are to run, in the order of that list.
chosen() {  # list
  local stage
  for stage; do
    if [[ " ${stages[*]} " == *" $stage "* ]]; then echo "$stage"; fi
  done
}

stages=("$@")
((${#stages[@]} > 0)) || stages=("${all_stages[@]}")
for stage in "${stages[@]}"; do
  if [[ " ${all_stages[*]} ${named_only[*]} " != *" $stage "* ]]; then
    echo "test: unknown stage $stage; the stages are: ${all_stages[*]} ${named_only[*]}" >&2
    exit 2
  fi
done

if [[ ${NF_TEST_TRACKS:-2} == 1 || ${#stages[@]} == 1 ]]; then
  run_track "${stages[@]}"
else
  # shellcheck disable=SC2046  # lists of words
  {
    run_track $(chosen build)
    taken=$(mktemp -d)  # a folder per stage
    set -m  # a process group per track, so that an interrupt ends both
    (
      renice -n 5 "$BASHPID" >/dev/null
      run_track $(chosen "${compile_track[@]}" "${named_only[@]}")
      run_remaining $(chosen "${either_track[@]}")
    ) &
    tracks=($!)
    (
      run_track $(chosen "${wait_track[@]}")
      run_remaining $(chosen "${either_track[@]}")
    ) &
    tracks+=($!)
    set +m
  }
  trap 'kill -- "${tracks[@]/#/-}" 2>/dev/null; rm -rf "$taken"' EXIT
  trap 'exit 130' INT TERM
  wait "${tracks[@]}"
  trap - EXIT INT TERM
  rm -rf "$taken"
fi

failed=0
for stage in "${stages[@]}"; do
  if [[ ! -f $logs/$stage.failed ]]; then continue; fi
  failed=1
  if ((${#stages[@]} == 1)); then break; fi  # they are on the terminal
  printf '\n==> the last lines of %s; all of them: %s\n' "$stage" "$logs/$stage.log"
  tail -n "$last_lines" "$logs/$stage.log"
done
printf '\n==> summary  (%d s)\n' "$SECONDS"
for stage in "${stages[@]}"; do cat "$logs/$stage.result"; done
exit "$failed"
