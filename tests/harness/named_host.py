"""Hosts on which documented commands run as written: with names, system directories of their own, and a shell."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from .clients import IMPATIENT
from .ground import Ground
from .hosts import Host, Hosts
from .plugin import client_plugin
from .process import SERVICE_USER, Process

COMMAND_SECONDS = 120


class NamedHost:
    """A host that knows the others as `NAME.example.org`, with an /etc, a /run and the directories in `binds`."""

    def __init__(
        self,
        ground: Ground,
        host: Host,
        hosts: Hosts,
        binds: Mapping[str, Path],
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.host = host
        self.directory = ground.directory(host.name)
        self.programs = ground.directory("programs")
        upper, work = ground.directory("upper"), ground.directory("work")
        of_hosts = {other.name: other.name for other in hosts} | dict(aliases or {})
        names = "".join(f"{hosts[name].address} {alias}.example.org\n" for alias, name in of_hosts.items())
        user = f"s/^{SERVICE_USER}:/forebay:/p"
        bound = "\n".join(f"mkdir -p {target}; mount --bind {source} {target}" for target, source in binds.items())
        prepare = f"""set -eu
            mount -t overlay overlay -o lowerdir=/etc,upperdir={upper},workdir={work} /etc
            mount -t tmpfs tmpfs /run
            {bound}
            mkdir -p /etc/forebay
            printf '{names}' >>/etc/hosts
            for file in passwd group; do sed -n '{user}' /etc/$file >/run/line; cat /run/line >>/etc/$file; done
        """
        self._environment = {
            **IMPATIENT,
            "HOME": str(self.directory),
            "PATH": f"{self.programs}:{ground.forebay.parent}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": str(client_plugin().parent),
        }
        self.type(prepare)

    def command(self, *argv: str | os.PathLike[str]) -> list[str]:
        """A command line that runs `argv` as root on this host."""
        settings = [f"{name}={value}" for name, value in self._environment.items()]
        return self.host.command("env", f"--chdir={self.directory}", *settings, *argv, user=None)

    def type(self, block: str) -> str:
        """Runs a block in a shell, and returns its output."""
        return self.run("bash", "-c", f"set -eu\n{block}")

    def run(self, *argv: str | os.PathLike[str], text: str = "") -> str:
        """Runs a command that reads a text, and must succeed; returns its output."""
        done = subprocess.run(
            self.command(*argv),
            input=text,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"on {self.host.name}:\n{argv[-1]}\n{done.stdout}{done.stderr}"
        return done.stdout

    def serve(self, block: str) -> Process:
        """Runs a block that ends with a server in the foreground, and returns when it is ready."""
        script = "set -eu\n" + block.replace("forebay serve", "exec forebay serve")
        process = Process("server", self.command("bash", "-c", script), self.directory, keep_root=True)
        process.wait_for_line(r"^ready root://")
        return process
