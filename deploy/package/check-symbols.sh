#!/usr/bin/env bash
# Refuses a binary that needs a newer system than EL8: check-symbols.sh BINARY. Needs binutils.
set -euo pipefail
# The C library of EL8.
glibc_max=2.28
libraries="ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 libc.so.6 libdl.so.2 libgcc_s.so.1 libm.so.6 libpthread.so.0 librt.so.1 libutil.so.1"

needed=$(objdump -p "$1" | sed -n 's/^ *NEEDED *//p')
for library in $needed; do
    if [[ " $libraries " != *" $library "* ]]; then
        echo "$1 needs $library, which EL8 may not have: build it with deploy/package/build-portable.sh" >&2
        exit 1
    fi
done
newest=$(objdump -T "$1" | grep --only-matching 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort --version-sort | tail -n 1)
if [[ -z $newest || $(printf '%s\n' "$newest" "$glibc_max" | sort --version-sort | tail -n 1) != "$glibc_max" ]]; then
    echo "$1 needs glibc ${newest:-of an unknown version}, EL8 has $glibc_max: build it with deploy/package/build-portable.sh" >&2
    exit 1
fi
