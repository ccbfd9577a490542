#!/usr/bin/env bash
# Installs the missing packages of packages.txt, and those of requirements.txt into .venv. Safe to run
# again. NF_SKIP_PACKAGES=1 leaves the system packages alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

missing_packages() {
  local wanted
  wanted=$(sed 's/#.*//' packages.txt | xargs -n 1 | sort -u)
  comm -23 <(printf '%s\n' "$wanted") \
    <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null |
      sed -n 's/^installed //p' | sort -u) | xargs
}

install_packages() {
  command -v dpkg-query >/dev/null ||
    fail "not a Debian system: install the packages of packages.txt by other means," \
         "then set NF_SKIP_PACKAGES=1"
  local missing as_root=()
  missing=$(missing_packages)
  [[ -n $missing ]] || return 0

  local by_hand="apt-get update && apt-get install --no-install-recommends $missing"
  if ((EUID != 0)); then
    if [[ -t 0 ]]; then as_root=(sudo); else as_root=(sudo -n); fi
    "${as_root[@]}" true 2>/dev/null ||
      fail "missing packages: $missing" "as root, run: $by_hand"
  fi
  echo "setup: installing $missing"
  # shellcheck disable=SC2086  # a list of words
  if ! "${as_root[@]}" apt-get update -qq ||
     ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
         apt-get install -y -qq --no-install-recommends $missing; then
    fail "could not install: $missing" "with a network, as root, run: $by_hand"
  fi
}

# The lines of requirements.txt that are not installed in .venv.
missing_python_packages() {
  comm -23 <(sort requirements.txt) \
    <(.venv/bin/python -m pip list --format freeze --disable-pip-version-check 2>/dev/null |
      tr _ - | sort) | xargs
}

install_python_packages() {
  local stamp=.venv/requirements.sha256 wanted missing quiet=()
  wanted=$(sha256sum <requirements.txt)
  # A virtual environment breaks if the Python that created it is removed: check that it runs.
  if ! .venv/bin/python -c '' 2>/dev/null; then
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
      fail "python3 on PATH must be 3.11 or newer; it is $(python3 --version 2>&1 || true)"
    echo "setup: creating .venv"
    python3 -m venv --clear .venv || fail "python3 cannot create a virtual environment"
  elif [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
    return
  fi
  missing=$(missing_python_packages)
  if [[ -n $missing ]]; then
    echo "setup: installing into .venv: $missing"
    if [[ $missing == *torch==* ]]; then echo "setup: the first run downloads several GB (PyTorch)"; fi
    if [[ ! -t 1 ]]; then quiet=(--quiet); fi
    .venv/bin/python -m pip install "${quiet[@]}" --disable-pip-version-check \
      -r requirements.txt ||
      fail "missing in .venv: $(missing_python_packages)" \
           "with a network, run: .venv/bin/python -m pip install -r requirements.txt"
  fi
  echo "$wanted" >"$stamp"
}

# nvcc, if the build includes the device path and the system has no CUDA toolkit.
install_cuda_toolkit() {
  local package
  package=$(.venv/bin/python -B scripts/cuda_build.py requirement) || exit 1
  [[ -n $package ]] || return 0
  echo "setup: installing into .venv: $package"
  if .venv/bin/python -m pip install --quiet --disable-pip-version-check "$package"; then
    touch .venv/requirements.sha256  # scripts/build.sh configures again
  elif [[ ${NF_CUDA:-AUTO} == ON ]]; then
    fail "NF_CUDA=ON, but there is no CUDA compiler (nvcc), and pip could not install one"
  else
    echo "setup: without it the build leaves out the device path (docs/install.md)" >&2
  fi
}

[[ -n ${NF_SKIP_PACKAGES:-} ]] || install_packages
install_python_packages
install_cuda_toolkit
