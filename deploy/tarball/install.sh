#!/bin/sh
# Installs Forebay on this machine, or removes it: install.sh [--remove]. Configuration and cache are never removed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" != 0 ]; then
    echo "install.sh: run it as root: it makes a user and writes to /usr and /etc" >&2
    exit 1
fi

has_systemd() { [ -d /run/systemd/system ]; }

each_file() { (cd "$here/root" && find . -type f ! -path './etc/*' | sed 's/^\.//'); }

remove() {
    if has_systemd; then
        systemctl --quiet disable --now forebay.service forebay.socket || true
    fi
    each_file | while read -r file; do rm -f "$file"; done
    rmdir /usr/share/doc/forebay 2>/dev/null || true
    if has_systemd; then systemctl daemon-reload; fi
    echo "forebay: removed; left are /etc/forebay, /var/cache/forebay, /var/lib/forebay, /var/log/forebay and the user"
}

accounts() {
    getent group forebay-admin >/dev/null || groupadd --system forebay-admin
    getent passwd forebay >/dev/null ||
        useradd --system --user-group --home-dir /var/cache/forebay --no-create-home --shell /sbin/nologin forebay
}

case "${1:-}" in
    "") ;;
    --remove)
        remove
        exit 0
        ;;
    *)
        echo "usage: install.sh [--remove]" >&2
        exit 2
        ;;
esac

accounts
each_file | while read -r file; do
    mkdir -p "$(dirname "$file")"
    # A running program cannot be overwritten, but replaced.
    cp "$here/root$file" "$file.new"
    chmod "$(stat -c %a "$here/root$file")" "$file.new"
    mv "$file.new" "$file"
done
mkdir -p /etc/forebay
[ -e /etc/forebay/forebay.toml ] || cp "$here/root/etc/forebay/forebay.toml" /etc/forebay/forebay.toml
install -d -o forebay -g forebay -m 0755 /run/forebay
install -d -o forebay -g forebay -m 0750 /var/cache/forebay /var/log/forebay
install -d -o forebay -g forebay -m 0700 /var/lib/forebay
if has_systemd; then
    systemctl daemon-reload
    systemctl try-restart forebay.service
fi
echo "forebay: write your origin into /etc/forebay/forebay.toml, then: systemctl enable --now forebay"
