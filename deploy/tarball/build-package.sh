#!/usr/bin/env bash
# Packs a built binary with an installer: build-package.sh BINARY OUTPUT-DIRECTORY. With the binary of
# deploy/package/build-portable.sh it is for every Linux with glibc 2.28 or newer.
set -euo pipefail
binary=$(realpath "$1")
output=$2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/package/metadata.sh

name=forebay-$version-linux-$(uname -m)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

deploy/package/stage.sh "$binary" "$work/$name/root" usr/share/zsh/site-functions
install -D --mode=644 LICENSE CHANGELOG.md "$work/$name/root/usr/share/doc/forebay"
install --mode=755 deploy/tarball/install.sh "$work/$name/install.sh"
mkdir -p "$output"
rm -f "$output"/forebay-*.tar.xz
pack "$work" "$name" "$output/$name.tar.xz"
