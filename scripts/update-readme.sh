#!/usr/bin/env bash
# Put what `espalier compare datasets/world.csv` prints for four layouts (all are too wide for a
# page) between the markers of README.md.  Timings are left out: they are the machine's.
set -euo pipefail
cd "$(dirname "$0")/.."

picture=$(mktemp)
trap 'rm -f "$picture"' EXIT
build/release/espalier compare datasets/world.csv --layouts path,replica,nested-set,adjacency \
    --no-report 2>/dev/null |
    sed -e '/^READS: TAIL/,$d' -e '/seconds in this store/d' >"$picture"
awk -v picture="$picture" '
    /^<!-- picture: quickstart -->$/ {
        print; print "```"
        while ((getline line < picture) > 0) { text = text line "\n" }
        sub(/\n+$/, "\n", text)
        printf "%s```\n", text
        skip = 1
    }
    /^<!-- \/picture -->$/ { skip = 0 }
    !skip
' README.md >README.md.new
mv README.md.new README.md
