#!/usr/bin/env bash
# Everything the tests need, a build with sanitizers and warnings as errors, all tests.
#   ./test.sh                the default run (also what .ci/run calls)
#   ./test.sh -L unit        arguments go to ctest
#   ESP_ENGINES=none ./test.sh    without the engines of the endpoint tests (no network needed)
set -euo pipefail
cd "$(dirname "$0")"

scripts/install-deps.sh test
export ESP_ENGINES=${ESP_ENGINES:-all}
tests/endpoint/engines.sh fetch

quietly() {
    local log
    log=$(mktemp)
    if ! "$@" >"$log" 2>&1; then
        tail -n 60 "$log" >&2
        rm -f "$log"
        exit 1
    fi
    rm -f "$log"
}
echo "Building with address and undefined behaviour sanitizers (build/asan)"
quietly cmake --preset asan
quietly cmake --build --preset asan
echo "Building with clang (build/clang) and the thread sanitizer (build/tsan)"
quietly cmake --preset clang
quietly cmake --build --preset clang
quietly cmake --preset tsan
quietly cmake --build --preset tsan --target threads_tests

# Threads first, so that the closing lines are those of the whole run.
if [ $# -eq 0 ]; then
    ctest --test-dir build/tsan -L threads --output-on-failure --no-tests=error
fi
ctest --test-dir build/asan -j 2 --output-on-failure --no-tests=error "$@"
