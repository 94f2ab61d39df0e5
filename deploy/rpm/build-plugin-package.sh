#!/usr/bin/env bash
# Packs a built client plug-in as RPM for EL9: build-plugin-package.sh LIBRARY OUTPUT-DIRECTORY. Needs rpmbuild and binutils. The
# library is that of deploy/package/build-plugin.sh.
set -euo pipefail
library=$(realpath "$1")
output=$2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/package/metadata.sh

architecture=$(uname -m)
date=$(LC_ALL=C date --utc --date="@$SOURCE_DATE_EPOCH" "+%a %b %d %Y")
name=forebay-plugin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

install -D --mode=755 "$library" "$work/root/usr/lib64/libXrdClForebay-5.so"
install -D --mode=644 docs/plugin.md "$work/root/usr/share/doc/$name-$version/README.md"
install -D --mode=644 LICENSE "$work/root/usr/share/licenses/$name-$version/LICENSE"
sed "s/@VERSION@/$version/g; s/@DATE@/$date/; s/@ARCHITECTURE@/$architecture/; s|@STAGED@|$work/root|" \
    deploy/rpm/forebay-plugin-binary.spec.in >"$work/$name.spec"
rpmbuild --quiet --define "_topdir $work/rpm" --define "_rpmdir $work/rpms" -bb "$work/$name.spec"
mkdir -p "$output"
rm -f "$output"/forebay-plugin-*.el9.*.rpm
cp "$work/rpms/$architecture/$name-$version-1.el9.$architecture.rpm" "$output/"
