#!/usr/bin/env bash
# What a level must show on real cards: a soak that was killed goes on, medium in its time, a stuck card, a floor out of reach.
# Usage: OUT=DIR tests/device/level_show.sh PROFILE CARDS [kill|medium|hang|floor]…; run from the top of the tree.
here=$(dirname "$0"); profile=$1; cards=$2; shift 2
fits="--profile $profile --set gpu.count=$cards"
for part in "$@"; do
  began=$(date +%s)
  case $part in
    kill)
      timeout -s KILL 20 python3 -m gpuscan run --no-history --level quick $fits --checkpoint "$OUT/soak" > /dev/null 2>&1
      echo "killed after 20 s; processes left: $(pgrep -fc gpuscan.burnin.worker), in use: $(nvidia-smi --query-gpu=memory.used --format=csv,noheader | tr '\n' ' ')"
      "$here/level.sh" quick --level quick $fits --checkpoint "$OUT/soak"; grep resumed "$OUT/quick.err" ;;
    medium) "$here/level.sh" medium --level medium $fits ;;
    hang) GPUSCAN_BURNIN_SCALE='{"hbm":{"test":"hang"},"gemm-exact":{"seconds":1},"gemm-stress":{"seconds":1}}' \
      "$here/level.sh" hang --level quick $fits --only burnin ;;
    floor) "$here/level.sh" floor --level quick $fits --only burnin --set burnin.hbm_copy_gbps=1000000 ;;
  esac
  echo "$part took $(($(date +%s) - began)) s"
done
