"""Warm data in memory: a file system for it, and the pages that the page cache had lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import LabError

REFAULTS = "workingset_refault_file"
"""A counter of `/proc/vmstat`: pages of files that were read again because memory was short."""
BEFORE, AFTER = f"{REFAULTS}_before", f"{REFAULTS}_after"
"""The fields of rows: the counter before and after the job."""
REFAULTS_MAX = 1000
"""With more refaults, 4 MB, a row of warm data is not one of memory."""
WARM = ("local", "-warm", "-file")
"""The ends of the names of set-ups that read warm data."""
ROOM_FACTOR = 1.1
"""Free space for a store, relative to its data: records, and blocks at the end of files."""


def default_directory() -> Path:
    """A directory of this user on the tmpfs that every Linux has."""
    return Path(f"/dev/shm/forebay-lab-{os.getuid()}")


def refaults() -> int:
    """The counter since the start of the machine."""
    lines = Path("/proc/vmstat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.split()[0] == REFAULTS)


def file_system(path: Path) -> str:
    """The type of the file system at a path, such as `tmpfs`."""
    place = path.resolve()
    found, kind = Path(), ""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mounted, this_kind, *_ = line.split(" ")
        point = Path(mounted.replace("\\040", " "))
        if place.is_relative_to(point) and len(point.parts) >= len(found.parts):
            found, kind = point, this_kind
    return kind


def need_room(directory: Path, size: int) -> None:
    """Checks that a directory has room for `size` bytes of data.

    # Errors
    `LabError` when it has not.
    """
    free, needed = shutil.disk_usage(directory).free, int(size * ROOM_FACTOR)
    if free < needed:
        raise LabError(
            f"{directory} has {free / 1e9:.2f} GB free, warm data needs {needed / 1e9:.2f} GB: "
            "use less data, or name a larger tmpfs by --memory-dir"
        )


def remove_stale(directory: Path) -> None:
    """Removes the directories `PID-NUMBER` of processes that have ended without doing so: they occupy memory."""
    for child in directory.glob("*-*"):
        pid = child.name.partition("-")[0]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            shutil.rmtree(child, ignore_errors=True)


def note(rows: Sequence[Mapping[str, object]]) -> str:
    """A sentence on warm rows whose data was not in memory, for reports."""
    warm = [row for row in rows if str(row["setup"]).endswith(WARM)]
    known = [row for row in warm if AFTER in row]
    if not warm:
        return ""
    if not known:
        return f"The rows do not record {REFAULTS}."
    lost = sum(int(str(row[AFTER])) - int(str(row[BEFORE])) > REFAULTS_MAX for row in known)
    places = ", ".join(sorted({str(row["warm_store"]) for row in known}))
    return (
        f"Warm data was on {places}. {lost} of {len(known)} rows with warm data had more than {REFAULTS_MAX} refaults."
    )
