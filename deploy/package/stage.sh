#!/usr/bin/env bash
# Puts the files that all packages have below a directory: stage.sh BINARY ROOT ZSH-DIRECTORY. Needs binutils and cargo.
set -euo pipefail
binary=$(realpath "$1")
root=$(realpath --canonicalize-missing "$2")
zsh=$3
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

put() { install -D --mode="$1" "$2" "$root/$3"; }

# Manual pages are compressed without a time stamp.
put_page() {
    put 644 "$1" "$2/$(basename "$1")"
    gzip --best --no-name "$root/$2/$(basename "$1")"
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
    put_page "$page" usr/share/man/man1
done
put_page "$work/man/forebay.toml.5" usr/share/man/man5
"$binary" completions bash >"$work/bash"
put 644 "$work/bash" usr/share/bash-completion/completions/forebay
"$binary" completions zsh >"$work/zsh"
put 644 "$work/zsh" "$zsh/_forebay"
for document in docs/*.md docs/example.toml docs/status-page.png README.md; do
    put 644 "$document" "usr/share/doc/forebay/$(basename "$document")"
done
python3 deploy/package/sbom.py "$root/usr/bin/forebay" "$work/sbom.cdx.json"
put 644 "$work/sbom.cdx.json" usr/share/doc/forebay/sbom.cdx.json
