#!/usr/bin/env bash
# Builds the client plug-in for the XRootD 5 of EL9 and newer systems: build-plugin.sh OUTPUT. Needs what `make plugin` needs, and
# binutils. The headers are those of this system's XRootD: any later 5.x loads the plug-in.
set -euo pipefail
output=$(realpath --canonicalize-missing "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Paths of this machine would be in messages, and differ between two builds.
flags="-ffile-prefix-map=$PWD=/forebay -ffile-prefix-map=$work=/build -Wl,--hash-style=both"
cmake -S plugin -B "$work/build" -G Ninja -DBUILD_TESTING=OFF -DCMAKE_CXX_FLAGS="$flags" -DCMAKE_LIBRARY_OUTPUT_DIRECTORY="$work" >"$work/log"
cmake --build "$work/build" >>"$work/log" || { cat "$work/log" >&2; exit 1; }
library=$work/libXrdClForebay-5.so
if [[ ! -e $library ]]; then
    echo "this system has another XRootD than 5, which clients of EL9 use" >&2
    exit 1
fi
strip --strip-unneeded "$library"
deploy/package/check-plugin-symbols.sh "$library"
install -D --mode=755 "$library" "$output"
