#!/usr/bin/env bash
# Builds the last commit again in a clone in another folder, and compares its packages: check-reproducible.sh PACKAGES. Needs the
# tools of build-portable.sh, and packages that were built from the same commit without other changes.
set -euo pipefail
packages=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [[ -n $(git status --porcelain) ]]; then
    echo "there are changes that are not committed: the clone would not have them" >&2
    exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

git clone --quiet --no-hardlinks . "$work/clone"
# Otherwise it would build into the folder of the first build, from which it shall be independent.
unset CARGO_TARGET_DIR
"$work/clone/deploy/package/build-portable.sh" "$work/forebay"
"$work/clone/deploy/package/build-plugin.sh" "$work/libXrdClForebay-5.so"
"$work/clone/deploy/package/build-all.sh" "$work/forebay" "$work/libXrdClForebay-5.so" "$work/packages"
diff "$packages/SHA256SUMS" "$work/packages/SHA256SUMS"
echo "the same packages again, byte for byte"
