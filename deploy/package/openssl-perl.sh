#!/usr/bin/env bash
# Perl for the build of the bundled OpenSSL: openssl-perl.sh SCRIPT ARGUMENTS. After `Configure` it replaces paths of this machine
# that the library would contain: directories of engines and modules, and the compiler in its description.
set -euo pipefail
perl "$@"
if [[ $1 == ./Configure ]]; then
    sed -i -e 's|^ENGINESDIR=.*|ENGINESDIR=/usr/lib/forebay/engines|' -e 's|^MODULESDIR=.*|MODULESDIR=/usr/lib/forebay/modules|' \
        -e 's|mkbuildinf\.pl "[^"]*"|mkbuildinf.pl "zig cc"|' Makefile
fi
