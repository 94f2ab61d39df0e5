#!/usr/bin/env bash
# Packs a built binary as RPM: build-package.sh BINARY OUTPUT-DIRECTORY. Needs rpmbuild and binutils. For EL8, EL9 and their
# relatives the binary is that of deploy/package/build-portable.sh. The package is built again byte for byte from the same binary and commit.
set -euo pipefail
binary=$(realpath "$1")
output=$2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/package/metadata.sh

architecture=$(uname -m)
date=$(LC_ALL=C date --utc --date="@$SOURCE_DATE_EPOCH" "+%a %b %d %Y")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

deploy/package/stage.sh "$binary" "$work/root" usr/share/zsh/site-functions
install -D --mode=644 CHANGELOG.md "$work/root/usr/share/doc/forebay/CHANGELOG.md"
install -D --mode=644 LICENSE "$work/root/usr/share/licenses/forebay/LICENSE"

DESCRIPTION=$description perl -pe "
    s/\@VERSION\@/$version/g; s/\@DATE\@/$date/; s/\@SUMMARY\@/\u$summary/; s/\@ARCHITECTURE\@/$architecture/;
    s{\@STAGED\@}{$work/root}; s/\@DESCRIPTION\@/\$ENV{DESCRIPTION}/" deploy/rpm/forebay.spec.in >"$work/forebay.spec"
rpmbuild --quiet --define "_topdir $work/rpm" --define "_rpmdir $work/rpms" -bb "$work/forebay.spec"
mkdir -p "$output"
rm -f "$output"/forebay-[0-9]*.rpm
cp "$work/rpms/$architecture/forebay-$version-1.$architecture.rpm" "$output/"
