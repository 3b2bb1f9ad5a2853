#!/usr/bin/env bash
# Make .venv-peers: peffects and the libraries that its benchmarks compare it with.  `make bench` uses
# that environment when it exists.  Arguments go to pip, for instance to take PyTorch from an index of
# CPU-only builds, which are much smaller:
#     benchmarks/setup_peers.sh --extra-index-url https://download.pytorch.org/whl/cpu
set -euo pipefail
cd "$(dirname "$0")/.."

"${PYTHON:-python3}" -m venv .venv-peers
.venv-peers/bin/python -m pip install --quiet --editable '.[progress,processes]' \
    jax torch stateless==0.6.1 effectful "$@"
.venv-peers/bin/python -m pip freeze --exclude-editable | grep -E '^(numba|numpy|jax|torch|stateless|effectful)='
