"""Several hosts on one machine: namespaces of network and mounts, with one address each, joined by a bridge.

That takes root.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .ground import program
from .process import SERVICE_USER, as_root

NETWORK = "10.77.0"
INTERFACE = "wire"


@dataclass(frozen=True)
class Keeper:
    """The owner of a namespace: a process that we started, and the process id for entering it."""

    process: subprocess.Popen[str]
    pid: int

    def entrance(self) -> list[str]:
        """Options of nsenter that lead there."""
        return [f"--net=/proc/{self.pid}/ns/net", f"--mount=/proc/{self.pid}/ns/mnt"]


@dataclass(frozen=True)
class Host:
    """One host. Programs of its `command` see only its network, and its own mounts in addition to the shared files."""

    name: str
    address: str
    keeper: Keeper

    def command(self, *argv: str | os.PathLike[str], user: str | None = SERVICE_USER) -> list[str]:
        """A command line that runs `argv` on this host, as a user (root for `None`)."""
        become: list[str] = []
        if user is not None:
            entry = pwd.getpwnam(user)
            ids = [f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
            become = [str(program("setpriv")), *ids, "--"]
        inside = [str(program("nsenter")), *self.keeper.entrance(), "--", *become]
        return as_root(*inside, *(os.fspath(part) for part in argv))

    @property
    def sent_bytes(self) -> int:
        """Bytes that have left this host, with all headers."""
        for line in Path(f"/proc/{self.keeper.pid}/net/dev").read_text().splitlines():
            name, _, counters = line.strip().partition(":")
            if name == INTERFACE:
                return int(counters.split()[8])
        raise AssertionError(f"{self.name} has no interface {INTERFACE}")


class Hosts:
    """Hosts that reach each other, and nothing else, as long as this is open."""

    def __init__(self, *names: str) -> None:
        self._keepers: list[Keeper] = []
        try:
            self._hub = self._keep()
            _ip(self._hub, "link", "add", "bridge", "type", "bridge")
            _ip(self._hub, "link", "set", "bridge", "up")
            self._hosts = {name: self._join(name, number) for number, name in enumerate(names, start=1)}
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Hosts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getitem__(self, name: str) -> Host:
        return self._hosts[name]

    def __iter__(self) -> Iterator[Host]:
        return iter(self._hosts.values())

    def close(self) -> None:
        """Takes the namespaces down: they go with the last process in them."""
        for keeper in self._keepers:
            keeper.process.communicate(timeout=10)
        self._keepers.clear()

    def _keep(self) -> Keeper:
        """A process in namespaces of its own, which ends with its standard input."""
        script = "echo $$; exec cat >/dev/null"
        command = as_root(str(program("unshare")), "--net", "--mount", "sh", "-c", script)
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said, "cannot make a network namespace: that takes root"
        self._keepers.append(keeper := Keeper(process, int(said)))
        return keeper

    def _join(self, name: str, number: int) -> Host:
        host = Host(name, f"{NETWORK}.{number}", self._keep())
        port = f"port{number}"
        peer = ["peer", "name", INTERFACE, "netns", str(host.keeper.pid)]
        _ip(self._hub, "link", "add", port, "type", "veth", *peer)
        _ip(self._hub, "link", "set", port, "master", "bridge", "up")
        _ip(host.keeper, "address", "add", f"{host.address}/24", "dev", INTERFACE)
        _ip(host.keeper, "link", "set", INTERFACE, "up")
        _ip(host.keeper, "link", "set", "lo", "up")
        return host


def _ip(keeper: Keeper, *arguments: str) -> None:
    enter = [str(program("nsenter")), *keeper.entrance(), "--"]
    done = subprocess.run(as_root(*enter, "ip", *arguments), capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
