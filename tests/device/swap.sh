#!/usr/bin/env bash
# History, holds and swaps on real cards: two recordings of one machine, one beside another machine's, begin and verify.
# usage: swap.sh FOLDER-FOR-RESULTS
set -u
out=$1
cd "$(dirname "$0")/../.."
gpuscan() { python3 -m gpuscan "$@"; }
say() { printf '\n===== %s\n' "$*"; }
state=$(mktemp -d)
cards=$(nvidia-smi -L | wc -l)
profile=h100
nvidia-smi -L | grep -q H200 && profile=h200
fits="--profile $profile --set gpu.count=$cards"
say "two recordings of one machine"
gpuscan collect "$out/a.json.gz" --profile $profile
gpuscan collect "$out/b.json.gz" --profile $profile
gpuscan diff "$out/a.json.gz" "$out/b.json.gz" $fits
echo "exit code $?"
say "one machine beside another: refused"
other=tests/recordings/h100-2x.json.gz
gpuscan diff $other "$out/b.json.gz" $fits
echo "exit code $?"
say "and with the tray replaced"
gpuscan diff $other "$out/b.json.gz" $fits --expect tray=replaced
echo "exit code $?"
say "a run that passes, and its status"
gpuscan run $fits -q --state-dir "$state"
echo "exit code $?"
gpuscan status --state-dir "$state"
echo "exit code $?"
say "a run that fails holds the node, and the next one that passes lifts it"
gpuscan run --profile $profile-8x -q --state-dir "$state"
echo "exit code $?"
gpuscan status --format oneline --state-dir "$state"
echo "exit code $?"
gpuscan explain hold --state-dir "$state"
gpuscan run $fits -q --state-dir "$state"
echo "exit code $?"
gpuscan status --format oneline --state-dir "$state"
echo "exit code $?"
say "a swap that changes nothing"
slot=$(gpuscan info --format json | python3 -c 'import json, sys; print(json.load(sys.stdin)["gpus"][0]["slot"])')
gpuscan swap begin $fits --ticket OPS-7 --part "gpu:$slot" --bug-report 60s --state-dir "$state"
echo "exit code $?"
gpuscan swap verify $fits --state-dir "$state"
echo "exit code $?"
gpuscan status --state-dir "$state"
echo "exit code $?"
gpuscan clear --reason "nothing was to be changed" --state-dir "$state"
gpuscan run $fits -q --state-dir "$state"
echo "exit code $?"
say "what is remembered"
gpuscan history list --state-dir "$state"
ls -l "$state" "$state"/swaps/*
say "the ticket"
gpuscan ticket --state-dir "$state"
echo "exit code $?"
say "times in ms, medians of seven"
python3 - "$state" <<'PY'
import statistics, subprocess, sys, time
def median_ms(*words):
    times = []
    for _ in range(7):
        start = time.perf_counter()
        subprocess.run(words, capture_output=True)
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)
bare = median_ms("python3", "-c", "pass")
status = median_ms("python3", "-m", "gpuscan", "status", "--state-dir", sys.argv[1])
smi = median_ms("nvidia-smi", "-q")
run = median_ms("python3", "-m", "gpuscan", "run", "--profile", "default", "--format", "json", "--no-history")
kept = median_ms("python3", "-m", "gpuscan", "run", "--profile", "default", "--format", "json", "--state-dir", sys.argv[1])
print(f"ms (bare) {bare:.0f}, status {status:.0f} ({status / bare:.2f}); nvidia-smi -q {smi:.0f}, run {run:.0f} ({run / smi:.2f}), with history {kept:.0f} ({kept / smi:.2f})")
PY
