#!/usr/bin/env bash
# What is shown on real cards: profiles that fit and do not, application faults, times beside nvidia-smi -q.
# Usage: tests/device/show.sh OUTPUT_FOLDER; run from the top of the tree, PYTHONPATH holding what is not installed.
set -u
out=$1
export GPUSCAN_STATE_DIR=$(mktemp -d)
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
gpuscan() { GPUSCAN_STATE_DIR=$(mktemp -d) python3 -m gpuscan "$@"; } # each call with a past of its own: no hold of another
say() { printf '\n===== %s\n' "$*"; }
try() { say "gpuscan $*"; gpuscan "$@"; echo "exit code $?"; }
times() { # the median wall time of seven runs, in ms
    python3 - "$@" <<'PY'
import statistics, subprocess, sys, time
times = []
for _ in range(7):
    start = time.perf_counter()
    subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    times.append((time.perf_counter() - start) * 1000)
print(f"{statistics.median(times):7.1f} ms ({min(times):.1f} to {max(times):.1f})  {' '.join(sys.argv[1:6])}")
PY
}
cards=$(nvidia-smi -L | wc -l)
case $(nvidia-smi --query-gpu=name --format=csv,noheader | head -1) in *H200*) sku=h200 ;; *) sku=h100 ;; esac
[ "$cards" = 1 ] && fits="$sku-1x" || fits=$sku
python3 -m compileall -q gpuscan
nvidia-smi -L | sed 's/GPU-[0-9a-f-]*/GPU-…/'
try info
try doctor
try run --profile auto
try run --profile h100-8x
try run --profile "$fits" --set "gpu.count=$cards" --record "$out/healthy.json.gz"
try collect "$out/redacted.json.gz" --redact --profile "$fits"
try judge "$out/redacted.json.gz" --set "gpu.count=$cards" -q
say "the time of a scan"
times nvidia-smi -q
times python3 -m gpuscan run --profile "$fits" --set "gpu.count=$cards" --format json
times python3 -m gpuscan run --profile "$fits" --format json
times nvidia-smi -q
times python3 -m gpuscan run --replay demo --format json
times python3 -c "import typer, yaml, json"
say "as an ordinary user"
cp -r gpuscan checks profiles /tmp/ 2>/dev/null
(cd / && setpriv --reuid 65534 --regid 65534 --clear-groups env PYTHONPATH="/tmp:$PYTHONPATH" python3 -m gpuscan run --profile "$fits" --set "gpu.count=$cards"; echo "exit code $?")
say "with an empty PATH"
env PATH= "$(command -v python3)" -m gpuscan run --profile "$fits" --set "gpu.count=$cards" | tail -3; echo "exit code ${PIPESTATUS[0]}"
say "capture and run again"
gpuscan profile capture --output /tmp/captured.yaml && cat /tmp/captured.yaml
try run --profile /tmp/captured.yaml
try run --profile /tmp/captured.yaml --report "junit=$out/gpuscan.xml" --report "json=$out/gpuscan.json" -q
say "application faults"
nvcc -o /tmp/app_faults tests/device/app_faults.cu && for fault in illegal-address trap shared-out-of-range misaligned; do /tmp/app_faults $fault; done
dmesg | grep Xid | cut -c1-160
try run --profile "$fits" --set "gpu.count=$cards" --record "$out/after.json.gz"
gpuscan collect "$out/after-redacted.json.gz" --redact --profile "$fits"
