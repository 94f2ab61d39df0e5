#!/usr/bin/env bash
# Gets the headers of the XRootD 6 that the Python package brings, from its source distribution: fetch-xrootd-6.sh PYTHON FOLDER
set -euo pipefail

python=$1
folder=$2
version=$("$python" -c 'import importlib.metadata as m; print(m.version("xrootd"))')
if [[ -f $folder/include/XrdVersion.hh && $(cat "$folder/version" 2>/dev/null) == "$version" ]]; then
    exit 0
fi
rm -rf "$folder"
mkdir -p "$folder/include"
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest "$folder" \
    "xrootd==$version"
tar -xf "$folder/xrootd-$version.tar.gz" -C "$folder/include" --strip-components=2 --wildcards \
    '*/src/*.hh' '*/src/*.h' '*/src/XrdVersion.hh.in'
rm "$folder/xrootd-$version.tar.gz"

IFS=. read -r major minor patch <<<"$version"
sed -e "s/@XRootD_VERSION_STRING@/v$version/" -e "s/@XRootD_VERSION_NUMBER@/$((10000 * major + 100 * minor + patch))/" \
    -e "s/@XRootD_VERSION_MAJOR@/$major/" "$folder/include/XrdVersion.hh.in" >"$folder/include/XrdVersion.hh"
echo "$version" >"$folder/version"
