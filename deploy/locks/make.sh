#!/bin/sh
# Make the locks anew, from pyproject.toml: `make lock`.
set -eu
cd "$(dirname "$0")/../.."
compile() { uv pip compile -q --python-platform x86_64-manylinux_2_34 --python-version 3.11 --no-header --no-annotate "$@"; }
compile --override deploy/locks/cpu-overrides.txt --extra bench --extra engine --extra train-tiny --extra dashboards \
    --extra dev pyproject.toml deploy/locks/cpu.in -o deploy/locks/cpu.txt
compile --extra engine pyproject.toml -o deploy/locks/cuda.txt
# Beside cpu.txt, whose pins hold here too: what only training needs.
compile --override deploy/locks/train-overrides.txt --extra train -c deploy/locks/cpu.txt pyproject.toml -o deploy/locks/train.txt
