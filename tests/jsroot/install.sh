#!/usr/bin/env bash
# Installs JSROOT, without the packages that it needs outside of browsers: install.sh FOLDER
set -euo pipefail

version=7.11.2
digest=3eb89af92b290faf81986360e02f143ad3f9cbb1a23834bf157810322092806c696e6f6271ece27d02dc553245ed168c9c2a2dea4a3b0a8668cee74cd5adb4e2
folder=$1
rm -rf "$folder"
mkdir -p "$folder"
(cd "$folder" && npm pack --silent "jsroot@$version")
echo "$digest  $folder/jsroot-$version.tgz" | sha512sum --check --quiet
tar -xf "$folder/jsroot-$version.tgz" -C "$folder" --strip-components=1
rm "$folder/jsroot-$version.tgz"
touch "$folder/.installed"
