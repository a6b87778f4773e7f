#!/usr/bin/env bash
# A level on real cards, as users run it: the report, the recording and JUnit go to $OUT, what is left of the cards' memory is told.
# Usage: OUT=DIR tests/device/level.sh NAME [gpuscan run options…]; run from the top of the tree.
name=$1; shift
${GPUSCAN:-python3 -m gpuscan} run --no-history --record "$OUT/$name.json.gz" --report "json=$OUT/$name.json" --report "junit-full=$OUT/$name.xml" \
  "$@" > "$OUT/$name.txt" 2> "$OUT/$name.err"
echo "$name: exit code $?, $(nvidia-smi --query-gpu=memory.used --format=csv,noheader | tr '\n' ' ')left in use"
grep -v '^ *$' "$OUT/$name.txt" | cut -c1-200 | tail -45
