#!/bin/bash
# Judges the GPU node that a CI job runs on and leaves its reports in a folder. It ends with
# gpuscan's own exit code: that has to fail the job, as no CI system fails it for a JUnit file alone.
#
#   gpuscan-ci.sh [OPTIONS of gpuscan run]
#
# GPUSCAN_ARGS  more of these options, separated by blanks
# GPUSCAN       another gpuscan than the one on PATH (a venv's)
# REPORTS       the folder, by default gpuscan-reports; give it to nothing else
set -u

gpuscan=${GPUSCAN:-gpuscan}
reports=${REPORTS:-gpuscan-reports}
read -ra more <<< "${GPUSCAN_ARGS:-}"
options=("$@" "${more[@]}")
files=(junit.xml ctrf.json report.json summary.md github.txt recording.json.gz)

say() { echo "gpuscan-ci: $*" >&2; }

scan() {
    local kept=(
        --report "junit=$reports/junit.xml"
        --report "ctrf=$reports/ctrf.json"
        --report "json=$reports/report.json"
        --report "markdown=$reports/summary.md"
        --report "github=$reports/github.txt"
    )
    # A replayed recording cannot be recorded again.
    [[ " ${options[*]}" == *" --replay"* ]] || kept+=(--record "$reports/recording.json.gz")
    "$gpuscan" run "${options[@]}" "${kept[@]}"
}

# Workspaces are used again: the reports of the job before must not pass for this one's.
[ ! -d "$reports" ] || (cd -- "$reports" && rm -rf -- "${files[@]}" ticket.md first)
if ! mkdir -p -- "$reports" || [ ! -w "$reports" ]; then
    say "$reports cannot be written: no report is kept"
    "$gpuscan" run "${options[@]}"
    code=$?
    [ "$code" -ne 0 ] || code=2 # nobody could read the pass
    exit "$code"
fi

scan
code=$?
# 3 is the only code that a second look may change: something was not read. A fault that was found
# (20 and above) is never tried again until it is green.
if [ "$code" -eq 3 ]; then
    say "incomplete: one more try; the reports of the first are in $reports/first"
    mkdir -p -- "$reports/first"
    for file in "${files[@]}"; do
        [ ! -e "$reports/$file" ] || mv -- "$reports/$file" "$reports/first/"
    done
    scan
    code=$?
fi

if [ "$code" -ge 20 ] && [ "$code" -lt 128 ] && [ -s "$reports/report.json" ]; then
    "$gpuscan" ticket "$reports/report.json" --format markdown --output "$reports/ticket.md" ||
        say "no ticket was written"
fi
exit "$code"
