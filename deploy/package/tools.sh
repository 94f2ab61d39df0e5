#!/usr/bin/env bash
# Installs the tools of build-portable.sh into a Python environment: tools.sh DIRECTORY.
set -euo pipefail
directory=$1
requirements=$(dirname "${BASH_SOURCE[0]}")/requirements.txt
if [[ ! -e $directory/.installed || $requirements -nt $directory/.installed ]]; then
    python3 -m venv "$directory"
    "$directory/bin/pip" install --quiet --no-compile --disable-pip-version-check -r "$requirements"
    touch "$directory/.installed"
fi
