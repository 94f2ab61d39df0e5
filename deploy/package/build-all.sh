#!/usr/bin/env bash
# Packs a built binary in every form, the built plug-in and its source, with the bill of materials and checksums of all:
# build-all.sh BINARY PLUGIN OUTPUT-DIRECTORY. The same files and commit give the same bytes.
set -euo pipefail
binary=$(realpath "$1")
plugin=$(realpath "$2")
output=$(realpath --canonicalize-missing "$3")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/package/metadata.sh

mkdir -p "$output"
deploy/rpm/build-package.sh "$binary" "$output"
deploy/rpm/build-plugin-package.sh "$plugin" "$output"
deploy/rpm/build-plugin-source.sh "$output"
deploy/debian/build-package.sh "$binary" "$output"
deploy/tarball/build-package.sh "$binary" "$output"
tar --extract --to-stdout --wildcards --file "$output"/forebay-"$version"-linux-*.tar.xz '*/doc/forebay/sbom.cdx.json' >"$output/forebay-$version.cdx.json"
(cd "$output" && sha256sum forebay[-_]*) >"$output/SHA256SUMS"
