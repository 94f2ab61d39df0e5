#!/usr/bin/env bash
# Packs the client plug-in as source RPM: build-plugin-source.sh OUTPUT-DIRECTORY. Needs rpmbuild. It must be built with the
# XRootD of the clients, whose version and compiler differ between systems.
set -euo pipefail
output=$(realpath --canonicalize-missing "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/package/metadata.sh

date=$(LC_ALL=C date --utc --date="@$SOURCE_DATE_EPOCH" "+%a %b %d %Y")
name=forebay-plugin-$version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/$name" "$work/rpm/SOURCES" "$work/rpm/SPECS"
cp -r plugin/CMakeLists.txt plugin/src plugin/tests LICENSE "$work/$name/"
cp docs/plugin.md "$work/$name/README.md"
pack "$work" "$name" "$work/rpm/SOURCES/$name.tar.xz"
sed "s/@VERSION@/$version/g; s/@DATE@/$date/" deploy/rpm/forebay-plugin.spec.in >"$work/rpm/SPECS/forebay-plugin.spec"
# Both are in the package as they are, with their times.
touch --date="@$SOURCE_DATE_EPOCH" "$work/rpm/SOURCES/$name.tar.xz" "$work/rpm/SPECS/forebay-plugin.spec"
# Relative: rpmbuild keeps the commands of the spec with their paths in the package.
(cd "$work/rpm" && rpmbuild --quiet --nodeps --define "_topdir ." --undefine dist -bs SPECS/forebay-plugin.spec)
mkdir -p "$output"
rm -f "$output"/forebay-plugin-*.src.rpm
cp "$work/rpm/SRPMS/$name-1.src.rpm" "$output/"
