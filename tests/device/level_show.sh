#!/usr/bin/env bash
# What a level must show on real cards: a soak that was killed goes on, each signal ends it, medium in its time, a stuck card,
# a floor out of reach, floors captured, a swap verified.
# Usage: OUT=DIR tests/device/level_show.sh PROFILE|auto [kill|stop|medium|hang|floor|capture|swap]…; run from the top of the tree.
# auto is h100-8x or h200-4x by the cards' name; the number of cards is that of this machine.
here=$(dirname "$0"); profile=$1; shift
cards=$(nvidia-smi -L | wc -l)
if [ "$profile" = auto ]; then
  nvidia-smi -L | grep -q H200 && profile=h200-4x || profile=h100-8x
  [ "$cards" = 1 ] && profile=${profile%-*}-1x
fi
fits="--profile $profile --set gpu.count=$cards"
left() { echo "processes left: $(pgrep -fc gpuscan.burnin.worker.main), in use: $(nvidia-smi --query-gpu=memory.used --format=csv,noheader | tr '\n' ' ')"; }
for part in "$@"; do
  began=$(date +%s)
  case $part in
    kill)
      timeout -s KILL 20 python3 -m gpuscan run --no-history --level quick $fits --checkpoint "$OUT/soak" > /dev/null 2>&1
      echo "killed after 20 s; $(left)"
      "$here/level.sh" quick --level quick $fits --checkpoint "$OUT/soak"; grep resumed "$OUT/quick.err" ;;
    stop) for signal in TERM HUP INT; do
        timeout --preserve-status -s $signal 12 python3 -m gpuscan run --no-history --level quick $fits --report "json=$OUT/stop.json" > /dev/null 2> "$OUT/stop.err"
        echo "SIG$signal after 12 s: exit code $?; $(left); said: $(tail -2 "$OUT/stop.err" | tr '\n' ' ')"
      done ;;
    medium) "$here/level.sh" medium --level medium $fits ;;
    hang) GPUSCAN="python3 $here/hang.py" \
      "$here/level.sh" hang --level quick $fits --only burnin; left ;;
    floor) "$here/level.sh" floor --level quick $fits --only burnin --set burnin.hbm_copy_gbps=1000000 ;;
    capture) python3 -m gpuscan profile capture --level quick --output "$OUT/captured.yaml" 2> "$OUT/capture.err"
      echo "capture: exit code $?"; sed -n '/burnin:/,$p' "$OUT/captured.yaml" ;;
    swap) state=$(mktemp -d)
      slot=$(python3 -m gpuscan info --format json | python3 -c 'import json, sys; print(json.load(sys.stdin)["gpus"][0]["slot"])')
      python3 -m gpuscan swap begin $fits --ticket OPS-7 --part "gpu:$slot" --bug-report 0 --state-dir "$state" > "$OUT/swap.txt" 2>&1
      echo "swap begin: exit code $?"
      python3 -m gpuscan swap verify $fits --state-dir "$state" >> "$OUT/swap.txt" 2>&1
      echo "swap verify: exit code $?"; tail -40 "$OUT/swap.txt" | cut -c1-200 ;;
  esac
  echo "===== $part took $(($(date +%s) - began)) s"
done
