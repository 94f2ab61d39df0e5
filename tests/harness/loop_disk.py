"""A file system of its own, for what a full or broken disk does."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .ground import Ground
from .process import as_root

BYTES = 48 << 20


@dataclass
class LoopDisk:
    """A file system in a file, mounted."""

    image: Path
    path: Path

    @classmethod
    def make(cls, ground: Ground, name: str, size: int = BYTES, options: Sequence[str] = ()) -> LoopDisk:
        """Needs loop devices."""
        image, path = ground.directory("images") / f"{name}.img", ground.directory(name)
        with image.open("wb") as file:
            file.truncate(size)
        disk = cls(image, path)
        subprocess.run(["/sbin/mke2fs", "-q", "-t", "ext4", *options, "-F", str(image)], check=True)
        disk.mount()
        subprocess.run(as_root("chmod", "777", str(path)), check=True)
        return disk

    def mount(self) -> None:
        """Mounts it."""
        subprocess.run(as_root("mount", "-o", "loop", str(self.image), str(self.path)), check=True)

    def sync(self) -> None:
        """Makes all that was written to it durable."""
        subprocess.run(as_root("sync", "-f", str(self.path)), check=True)

    def abort(self) -> None:
        """Has the file system turn read-only, as it does itself when it finds that something is wrong."""
        subprocess.run(as_root("mount", "-o", "remount,abort", str(self.path)), check=True)

    def repair(self) -> None:
        """Repairs it while it is not in use."""
        self._let_go()
        self.mount()

    def damage_directory(self, path: str) -> None:
        """Overwrites the block with the names of a directory, while the disk is not in use."""
        self._let_go()
        block = int(self._debug(f"blocks {path}").split()[0])
        size = re.search(r"Block size:\s+(\d+)", self._debug("stats -h"))
        assert size is not None
        with self.image.open("r+b") as file:
            file.seek(block * int(size[1]))
            file.write(b"\xa5" * int(size[1]))
        self.mount()

    def _let_go(self) -> None:
        """Unmounts it, and continues on a repaired copy: a mount namespace of another test may still hold the image."""
        # An aborted file system cannot be synced.
        subprocess.run(as_root("sync", "-f", str(self.path)), capture_output=True, check=False)
        subprocess.run(as_root("umount", str(self.path)), check=True)
        copy = self.image.with_suffix(".again.img")
        shutil.copyfile(self.image, copy)
        self.image = copy
        # It replays the journal, too, which could undo a change of the image. Its exit status reports repairs.
        subprocess.run(["/sbin/e2fsck", "-fp", str(copy)], capture_output=True, check=False)

    def _debug(self, request: str) -> str:
        command = ["/sbin/debugfs", "-R", request, str(self.image)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def unmount(self) -> None:
        """Takes it away, also with open files."""
        subprocess.run(as_root("umount", "-l", str(self.path)), check=False)

    def holds(self, path: str) -> bool:
        """Whether a cached file lies on it."""
        return (self.path / path[1:]).exists()

    def fill(self) -> None:
        """Takes all space that is left, as another program on the same disk would."""
        append = f"dd if=/dev/zero of={self.path}/filler oflag=append conv=notrunc"
        script = f"{append} bs=64k; {append} bs=1k; sync"
        subprocess.run(as_root("sh", "-c", script), capture_output=True, check=False)

    def free(self) -> None:
        """Gives that space back."""
        subprocess.run(as_root("sh", "-c", f"rm -f {self.path}/filler*"), check=True)
