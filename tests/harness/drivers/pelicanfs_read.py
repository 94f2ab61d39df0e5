"""Lists a directory of a federation and copies files of it with pelicanfs: FEDERATION DIRECTORY TARGET."""

from __future__ import annotations

import sys
from pathlib import Path

from pelicanfs.core import PelicanFileSystem

federation, directory, target = sys.argv[1:4]
files = PelicanFileSystem(federation, skip_instance_cache=True)
for entry in files.ls(directory, detail=True):
    name = entry["name"].rsplit("/", 1)[-1]
    content = files.cat(f"{directory}/{name}")
    size = files.info(f"{directory}/{name}")["size"]
    if size != len(content):
        raise SystemExit(f"{name}: the size is {size}, the content has {len(content)} bytes")
    (Path(target) / name).write_bytes(content)
