#!/usr/bin/env bash
# Trains a small model with plain DDP, with static low-bit gradients and with nf.attach(), and compares
# the runs; takes a few minutes. `make demo` builds first. The options are those of `nf demo`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
exec "${NF_PYTHON:-.venv/bin/python}" -m neuron_fabric_lab.demo --out build/demo "$@"
