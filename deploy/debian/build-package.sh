#!/usr/bin/env bash
# Packs a built binary: build-package.sh BINARY OUTPUT-DIRECTORY. Needs dpkg-dev and binutils. The package is built again
# byte for byte from the same binary and commit.
set -euo pipefail
binary=$(realpath "$1")
output=$2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
architecture=$(dpkg --print-architecture)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

put() { install -D --mode="$1" "$2" "$root/$3"; }

# Debian's policy: manual pages and change logs are compressed, without a time stamp.
put_compressed() {
    put "$1" "$2" "$3"
    gzip --best --no-name "$root/$3"
}

put 755 "$binary" usr/bin/forebay
strip --strip-unneeded "$root/usr/bin/forebay"
put 644 deploy/debian/forebay.toml etc/forebay/forebay.toml
put 644 deploy/systemd/forebay.service usr/lib/systemd/system/forebay.service
put 644 deploy/systemd/forebay.socket usr/lib/systemd/system/forebay.socket
put 644 deploy/systemd/sysusers.conf usr/lib/sysusers.d/forebay.conf
put 644 deploy/systemd/tmpfiles.conf usr/lib/tmpfiles.d/forebay.conf
"$binary" man "$work/man"
for page in "$work"/man/*.1; do
    put_compressed 644 "$page" "usr/share/man/man1/$(basename "$page")"
done
put_compressed 644 "$work/man/forebay.toml.5" usr/share/man/man5/forebay.toml.5
"$binary" completions bash >"$work/bash"
put 644 "$work/bash" usr/share/bash-completion/completions/forebay
"$binary" completions zsh >"$work/zsh"
put 644 "$work/zsh" usr/share/zsh/vendor-completions/_forebay
for document in docs/*.md docs/example.toml README.md; do
    put 644 "$document" "usr/share/doc/forebay/$(basename "$document")"
done
put_compressed 644 CHANGELOG.md usr/share/doc/forebay/changelog
put 644 LICENSE usr/share/doc/forebay/copyright

# dpkg-shlibdeps reads the libraries' packages off the binary; it wants a source package's control file beside it.
mkdir -p "$work/debian" "$root/DEBIAN"
echo "Source: forebay" >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O root/usr/bin/forebay | sed -n 's/^shlibs:Depends=//p')

cat >"$root/DEBIAN/control" <<CONTROL
Package: forebay
Version: $version-1
Architecture: $architecture
Maintainer: The Forebay developers
Installed-Size: $(du --summarize --block-size=1024 --apparent-size "$root" | cut -f 1)
Depends: $depends, passwd
Recommends: ca-certificates
Section: net
Priority: optional
Description: disk-caching proxy for high-energy physics data
 Clients read files of distant origins through it. Blocks that were read once
 are served from its disk. Directories of an XCache can be taken over.
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
