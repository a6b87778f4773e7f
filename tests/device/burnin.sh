#!/usr/bin/env bash
# The burn-in engine on real cards: rates beside cuBLAS and physical limits, every injected flip, signals, times.
# Usage: tests/device/burnin.sh; run from the top of the tree, on a machine with cards, cuda-bindings and PyTorch.
exec python3 tests/device/burnin_show.py "$@"
