#!/usr/bin/env bash
# From a fresh clone to a comparison of all layouts, on this machine, without any account.
set -euo pipefail
cd "$(dirname "$0")"

scripts/install-deps.sh build
echo "Building build/release/espalier"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { cmake --preset release && cmake --build --preset release; } >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    exit 1
fi

report=espalier-compare.md
build/release/espalier compare datasets/world.csv --report "$report"
cat <<EOF

The report: $PWD/$report

Try next:
  build/release/espalier import datasets/world.csv --layout path --to local:build/db --table world --if-exists replace
  build/release/espalier query local:build/db --table world --layout path children 150 --cost
  build/release/espalier plan datasets/world.csv --workload browse
EOF
