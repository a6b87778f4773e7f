#!/bin/bash
# Tests gpuscan in an image that is being built, where usually no GPU is: it is installed, judges a
# healthy and a broken node right, and leaves no state for the image's copies to inherit.
set -eu
gpuscan=${GPUSCAN:-gpuscan}
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT

judge() { # judge EXPECTED ARGS...
    local expected=$1 code=0
    shift
    timeout 360 "$gpuscan" run --state-dir "$state" -q "$@" || code=$?
    [ "$code" = "$expected" ] || { echo "gpuscan run $*: exit $code, not $expected" >&2; exit 1; }
}

judge 0 --replay demo
judge 41 --replay demo-broken
if [ -e /var/lib/gpuscan/last.json ]; then
    echo "/var/lib/gpuscan has a node's history, which every copy of the image would inherit" >&2
    exit 1
fi
