"""A machine for installations: an overlay of this one, whose changes are kept in memory and discarded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .ground import REPOSITORY, Ground, program
from .hosts import Host
from .process import Process, as_root

COMMAND_SECONDS = 300.0
MOUNTS = """
set -e
base="$1" user="$2" shared="$3"
shift 3
mount -t tmpfs -o mode=755 tmpfs "$base"
mkdir "$base/changes" "$base/work" "$base/root"
mount -t overlay -o "lowerdir=/,upperdir=$base/changes,workdir=$base/work" overlay "$base/root"
for path in dev proc sys; do
    mount --rbind "/$path" "$base/root/$path"
done
mount -t tmpfs -o mode=755 tmpfs "$base/root/run"
if [ -n "$shared" ]; then
    mkdir -p "$base/root$shared"
    mount --bind "$shared" "$base/root$shared"
fi
for path; do
    mkdir -p "$base/root$path"
    mount --bind "$path" "$base/root$path"
    mount -o remount,bind,ro "$base/root$path"
done
echo "machine $$"
exec tail --pid="$user" -f /dev/null
"""


class Machine:
    """A root directory that covers this machine's, in a mount namespace of its own. No init runs there.

    The `shared` directory is visible on all machines and on this one, as on a cluster file system. The network is that
    of `host`, or of this machine.
    """

    def __init__(self, ground: Ground, shared: Path | None = None, host: Host | None = None) -> None:
        base = ground.directory("machine")
        self.root = base / "root"
        arguments = [str(base), str(os.getpid()), str(shared or ""), *elsewhere()]
        script = [str(program("unshare")), "--mount", "sh", "-c", MOUNTS, "sh", *arguments]
        command = host.command(*script, user=None) if host else as_root(*script)
        self._holder = Process("machine", command, ground.directory("holder"), keep_root=True)
        self._pid = self._holder.wait_for_line(r"^machine (\d+)$")[1]

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(as_root("kill", f"-{signal.SIGKILL.value}", self._pid), check=False)
        self._holder.stop()

    def command(self, *arguments: str) -> list[str]:
        """A command as it is to be started from here."""
        enter = [str(program("nsenter")), "--target", self._pid, "--mount", "--net", "chroot", str(self.root)]
        return as_root(*enter, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", *arguments)

    def run(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Runs a command there, with a text to read."""
        return subprocess.run(
            self.command(*arguments), input=text, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
        )

    def done(self, *arguments: str, text: str = "") -> str:
        """The output of a command there, which must succeed."""
        ended = self.run(*arguments, text=text)
        assert ended.returncode == 0, f"{arguments}: {ended.returncode}\n{ended.stdout}{ended.stderr}"
        return ended.stdout + ended.stderr

    def write(self, path: str, text: str) -> None:
        """Writes a file there."""
        self.done("tee", path, text=text)

    def read(self, path: str) -> str:
        """The content of a file there."""
        return self.done("cat", path)

    def has(self, path: str) -> bool:
        """Whether there is such a file or directory."""
        return self.run("test", "-e", path).returncode == 0

    def take(self, file: Path) -> str:
        """Copies a file there; returns its path."""
        self.write_bytes(f"/tmp/{file.name}", file.read_bytes())
        return f"/tmp/{file.name}"

    def write_bytes(self, path: str, content: bytes) -> None:
        """Writes a file of any content there."""
        subprocess.run(
            self.command("tee", path), input=content, stdout=subprocess.DEVNULL, timeout=COMMAND_SECONDS, check=True
        )

    def start(self, ground: Ground, name: str, command: Sequence[str]) -> Process:
        """Starts a program there in the background."""
        return Process(name, self.command(*command), ground.directory(name), keep_root=True)


def elsewhere() -> list[str]:
    """The repository and Python if they are not on the root file system: the overlay shows nothing else."""
    root = Path("/").stat().st_dev
    return [str(path) for path in (REPOSITORY, Path(sys.prefix), Path(sys.base_prefix)) if path.stat().st_dev != root]
