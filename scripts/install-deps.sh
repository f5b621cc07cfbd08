#!/usr/bin/env bash
# Install the Debian packages that are missing: install-deps.sh build | test
# Says what it installs; does nothing, fast, when everything is there.
set -euo pipefail

build=(cmake ninja-build gcc libc6-dev pkg-config libcsv-dev libyajl-dev libjansson-dev liblmdb-dev
       libcurl4-openssl-dev libssl-dev zlib1g-dev libzstd-dev)
test=("${build[@]}" libcmocka-dev zstd clang libclang-rt-14-dev clang-format-14 python3)

case "${1:-build}" in
build) wanted=("${build[@]}") ;;
test)
    wanted=("${test[@]}")
    # The engines the endpoint tests compare with come through npm and Maven.
    command -v npm >/dev/null || wanted+=(npm)
    command -v mvn >/dev/null || wanted+=(maven)
    command -v java >/dev/null || wanted+=(default-jre-headless)
    ;;
*) echo "usage: $0 build|test" >&2; exit 2 ;;
esac

missing=()
for package in "${wanted[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "Please install these packages (names as in Debian 12): ${missing[*]}" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "Run as root or install sudo; needed: ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
fi
echo "Installing from Debian: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for try in 1 2 3; do
    if "${as_root[@]}" apt-get update >"$log" 2>&1 &&
        "${as_root[@]}" apt-get install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
        exit 0
    fi
    sleep $((try * 3))
done
tail -n 20 "$log" >&2
echo "Could not install: ${missing[*]}" >&2
exit 1
