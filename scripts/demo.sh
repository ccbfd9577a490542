#!/usr/bin/env bash
# Trains a small model as plain DDP, with static low-bit gradients and with nf.attach(), and compares
# them, in a few minutes; `make demo` builds what it needs first. Options are those of `nf demo`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PYTHONPATH=$PWD/python${PYTHONPATH:+:$PYTHONPATH}
exec "${NF_PYTHON:-.venv/bin/python}" -m neuron_fabric_lab.demo --out build/demo "$@"
