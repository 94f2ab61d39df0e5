#!/usr/bin/env bash
# Installs, on Debian and its relatives, the programs that the tests run in addition to forebay, if they are missing.
# With --python-only: only what a Python virtual environment needs. With --build-only: only what cargo needs in addition to Rust.
# With --plugin-only: only the build requirements of the client plug-in. With --list: prints missing packages and installs nothing.
set -euo pipefail

missing_for_plugin() {
    local file
    command -v g++ >/dev/null || echo g++
    command -v cmake >/dev/null || echo cmake
    command -v ninja >/dev/null || echo ninja-build
    for file in xrootd/XrdVersion.hh:libxrootd-dev xrootd/XrdCl/XrdClFile.hh:libxrootd-client-dev \
        gtest/gtest.h:libgtest-dev; do
        [[ -e "/usr/include/${file%%:*}" ]] || echo "${file##*:}"
    done
}

missing() {
    if [[ "${1:-}" == --plugin-only ]]; then
        missing_for_plugin
        return
    fi
    if [[ "${1:-}" != --python-only ]]; then
        command -v pkg-config >/dev/null || echo pkg-config
        pkg-config --exists openssl 2>/dev/null || echo libssl-dev
        command -v cc >/dev/null || echo gcc
        [[ "${1:-}" == --build-only ]] && return
    fi
    python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
    [[ "${1:-}" == --python-only ]] && return
    local library
    for program in xrootd cmsd xrdpfc_print; do
        command -v "$program" >/dev/null || echo xrootd-server
    done
    for program in xrdcp xrdfs; do
        command -v "$program" >/dev/null || echo xrootd-client
    done
    for library in libXrdPfc:xrootd-server-plugins libXrdClProxyPlugin:xrootd-client-plugins libXrdVoms:xrootd-voms-plugins \
        libXrdAccSciTokens:xrootd-scitokens-plugins; do
        compgen -G "/usr/lib*/*/${library%%:*}-[0-9].so" >/dev/null || echo "${library##*:}"
    done
    command -v chromium >/dev/null || echo chromium
    command -v javac >/dev/null || echo default-jdk-headless
    command -v mvn >/dev/null || echo maven
    command -v promtool >/dev/null || echo prometheus
    command -v amtool >/dev/null || echo prometheus-alertmanager
    [[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ]] || echo rabbitmq-server
    command -v epmd >/dev/null || echo erlang-base
    command -v curl >/dev/null || echo curl
    command -v nginx >/dev/null || echo nginx-light
    [[ -e /usr/lib/nginx/modules/ngx_http_dav_ext_module.so ]] || echo libnginx-mod-http-dav-ext
    [[ -e /usr/lib/apache2/modules/mod_dav_fs.so ]] || echo apache2-bin
    command -v davix-get >/dev/null || echo davix
    command -v rclone >/dev/null || echo rclone
    command -v cadaver >/dev/null || echo cadaver
    command -v g++ >/dev/null || echo g++
    [[ -e /usr/include/davix/davix.hpp ]] || echo davix-dev
    command -v gio >/dev/null || echo libglib2.0-bin
    command -v dbus-run-session >/dev/null || echo dbus
    command -v npm >/dev/null || echo npm
    [[ -x /usr/libexec/gvfsd ]] || echo gvfs
    [[ -x /usr/libexec/gvfsd-dav ]] || echo gvfs-backends
    command -v gfal-copy >/dev/null || echo gfal2-util-scripts
    /usr/bin/python3 -c 'import gfal2' 2>/dev/null || echo python3-gfal2
    for library in http file; do
        compgen -G "/usr/lib*/*/gfal2-plugins/libgfal_plugin_$library.so" >/dev/null || echo "gfal2-plugin-$library"
    done
    command -v dccp >/dev/null || echo dcap
    [[ -e /usr/include/dcap.h ]] || echo dcap-dev
    command -v voms-proxy-fake >/dev/null || echo voms-clients
    for program in unshare nsenter; do
        command -v "$program" >/dev/null || echo util-linux
    done
    command -v mount >/dev/null || echo mount
    command -v ip >/dev/null || echo iproute2
    command -v openssl >/dev/null || echo openssl
    command -v systemd-analyze >/dev/null || echo systemd
    command -v dpkg-shlibdeps >/dev/null || echo dpkg-dev
    command -v rpmbuild >/dev/null || echo rpm
    command -v rpmlint >/dev/null || echo rpmlint
    command -v cpio >/dev/null || echo cpio
    command -v puppet >/dev/null || echo puppet-agent
    /usr/bin/python3 -c 'import apt' 2>/dev/null || echo python3-apt
    command -v go >/dev/null || echo golang-go
    for library in github.com/Masterminds/sprig:golang-github-masterminds-sprig-dev sigs.k8s.io/yaml:golang-k8s-sigs-yaml-dev; do
        [[ -d "/usr/share/gocode/src/${library%%:*}" ]] || echo "${library##*:}"
    done
    for program in valgrind strace; do
        command -v "$program" >/dev/null || echo "$program"
    done
}

if [[ "${1:-}" == --list ]]; then
    { missing; missing_for_plugin; } | sort -u
    exit 0
fi
mapfile -t packages < <(missing "$@" | sort -u)
if ((${#packages[@]} == 0)); then
    exit 0
fi
# Steps of the tests that run side by side may need packages at the same time.
mkdir -p "$(dirname "$0")/../target"
exec 9>"$(dirname "$0")/../target/install-tools.lock"
flock 9
mapfile -t packages < <(missing "$@" | sort -u)
if ((${#packages[@]} == 0)); then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "missing: ${packages[*]} (Debian's names). Install them and run this again." >&2
    exit 1
fi
as_root=()
if ((EUID != 0)); then
    as_root=(sudo)
    command -v sudo >/dev/null || {
        echo "missing: ${packages[*]}. As root: apt-get install ${packages[*]}" >&2
        exit 1
    }
fi
echo "installing ${packages[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install_packages() {
    "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}"
}
# apt is heard only when it fails.
if ! install_packages >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi

mapfile -t packages < <(missing "$@" | sort -u)
if ((${#packages[@]} != 0)); then
    echo "still missing after the installation: ${packages[*]}" >&2
    exit 1
fi
