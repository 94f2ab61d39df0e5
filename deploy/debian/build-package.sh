#!/usr/bin/env bash
# Packs a built binary: build-package.sh BINARY OUTPUT-DIRECTORY. Needs dpkg-dev and binutils. The package is built again
# byte for byte from the same binary and commit.
set -euo pipefail
binary=$(realpath "$1")
output=$2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. deploy/package/metadata.sh

architecture=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

deploy/package/stage.sh "$binary" "$root" usr/share/zsh/vendor-completions
# Debian's policy: the change log is compressed, the licence is called copyright.
gzip --best --no-name --stdout CHANGELOG.md >"$root/usr/share/doc/forebay/changelog.gz"
install --mode=644 LICENSE "$root/usr/share/doc/forebay/copyright"

# dpkg-shlibdeps reads the libraries' packages off the binary; it wants a source package's control file in its directory.
mkdir -p "$work/debian" "$root/DEBIAN"
echo "Source: forebay" >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O root/usr/bin/forebay | sed -n 's/^shlibs:Depends=//p')
# It states the libc of this system for symbols that older ones have, too: a portable binary also runs with those.
libc=$(objdump --dynamic-syms "$root/usr/bin/forebay" | sed -n 's/.*(\?GLIBC_\([0-9.]*\).*/\1/p' | sort --version-sort | tail -n 1)
depends=$(sed "s/libc6 (>= [^)]*)/libc6 (>= $libc)/" <<<"$depends")

# Sizes of directories depend on the file system.
installed_kib=$(find "$root" -type f -printf '%s\n' | awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }')
cat >"$root/DEBIAN/control" <<CONTROL
Package: forebay
Version: $version-1
Architecture: $architecture
Maintainer: The Forebay developers
Installed-Size: $installed_kib
Depends: $depends, passwd
Recommends: ca-certificates
Section: net
Priority: optional
Description: $summary
$(sed 's/^/ /' <<<"$description")
CONTROL
echo /etc/forebay/forebay.toml >"$root/DEBIAN/conffiles"
for script in postinst postrm prerm; do
    install --mode=755 "deploy/debian/$script" "$root/DEBIAN/$script"
done
(cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"

mkdir -p "$output"
rm -f "$output"/forebay_*.deb
# Quick to pack: the tests build it each time, and the binary is most of it.
dpkg-deb --root-owner-group -Zxz -z1 --build "$root" "$output/forebay_$version-1_$architecture.deb"
