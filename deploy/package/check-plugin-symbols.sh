#!/usr/bin/env bash
# Refuses a library of the plug-in that needs a newer system than EL9: check-plugin-symbols.sh LIBRARY. Needs binutils.
set -euo pipefail

# The C library of EL9, and the C++ library of its compiler, version 11.
declare -A newest=([GLIBC]=2.34 [GLIBCXX]=3.4.29 [CXXABI]=1.3.13)

needed=$(objdump -T "$1" | grep --only-matching --extended-regexp '\((GLIBC|GLIBCXX|CXXABI)_[0-9.]+\)' | tr -d '()' | sort --unique)
if [[ -z $needed ]]; then
    echo "$1 needs no symbols of a C++ library: it is not the plug-in" >&2
    exit 1
fi
for version in $needed; do
    name=${version%%_*}
    limit=${newest[$name]}
    if [[ $(printf '%s\n' "${version#*_}" "$limit" | sort --version-sort | tail -n 1) != "$limit" ]]; then
        echo "$1 needs $version, EL9 has ${name}_$limit: build it on Debian 12 or an older system" >&2
        exit 1
    fi
done
