"""The chapter "Set up disk caching on the fly in 15 minutes", typed as written: each block on the host it names."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from harness.clients import IMPATIENT
from harness.ground import REPOSITORY, Ground
from harness.hosts import Host, Hosts
from harness.plugin import client_plugin
from harness.process import SERVICE_USER
from harness.root_files import make_tree

from .conftest import start_origin

CHAPTER = REPOSITORY / "docs" / "on-the-fly.md"
BLOCK = re.compile(r"^```sh (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK_SECONDS = 120
ROLES = ("client", "manager", "filler", "origin")

# Replaces systemd, which does not run in a namespace: starts and stops the server as the unit of the package does.
SYSTEMCTL = """#!/bin/sh
set -eu
cd "$SERVICE_DIRECTORY"
[ "$1" != daemon-reload ] || exit 0
if [ -e pid ]; then
    kill "$(cat pid)"
    while kill -0 "$(cat pid)" 2>/dev/null; do sleep 0.05; done
    rm pid
fi
[ "$1" = restart ] || exit 0
store=$(sed -n 's/^path = "\\(.*\\)"$/\\1/p' /etc/forebay/forebay.toml)
grep -qxF "ReadWritePaths=$store" /etc/systemd/system/forebay.service.d/*.conf || {
    echo "the unit does not let the server write in $store"
    exit 1
}
install -d -o forebay -g forebay /run/forebay
setsid setpriv --reuid=forebay --regid=forebay --clear-groups \\
    forebay serve --config /etc/forebay/forebay.toml >log 2>&1 </dev/null &
echo $! >pid
until grep -q "^ready root://" log; do
    kill -0 "$(cat pid)" || { cat log; exit 1; }
    sleep 0.05
done
"""


class Machine:
    """A host with names in its /etc/hosts, the package's files and user, and a shell."""

    def __init__(self, ground: Ground, host: Host, hosts: Hosts, shared: Path) -> None:
        self.host = host
        self.directory = ground.directory(host.name)
        upper, work = ground.directory("upper"), ground.directory("work")
        names = "".join(f"{other.address} {other.name}.example.org\n" for other in hosts)
        user = f"s/^{SERVICE_USER}:/forebay:/p"
        prepare = f"""set -eu
            mount -t overlay overlay -o lowerdir=/etc,upperdir={upper},workdir={work} /etc
            mount --bind {shared} /srv
            mount -t tmpfs tmpfs /run
            mkdir -p /etc/forebay
            printf '{names}' >>/etc/hosts
            for file in passwd group; do sed -n '{user}' /etc/$file >/run/line; cat /run/line >>/etc/$file; done
        """
        _succeed(host, {}, prepare)
        programs = ground.directory("programs")
        stand_in = programs / "systemctl"
        stand_in.write_text(SYSTEMCTL)
        stand_in.chmod(0o755)
        self._environment = {
            "PATH": f"{programs}:{ground.forebay.parent}:{os.environ['PATH']}",
            "SERVICE_DIRECTORY": str(self.directory),
            "LD_LIBRARY_PATH": str(client_plugin().parent),
        }

    def type(self, block: str) -> str:
        """Runs a block in a shell of the machine's."""
        script = f"set -eu\ncd {self.directory}\n{block}"
        return _succeed(self.host, self._environment, script)

    def stop(self) -> None:
        """Ends servers that are still running."""
        self.type("systemctl stop forebay")


def _succeed(host: Host, environment: dict[str, str], script: str) -> str:
    """Runs a script as root on a host, and returns its output."""
    settings = [f"{name}={value}" for name, value in {**IMPATIENT, **environment}.items()]
    command = host.command("env", *settings, "bash", "-c", script, user=None)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=BLOCK_SECONDS, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"on {host.name}:\n{script}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_chapter_works_as_it_is_written(ground: Ground) -> None:
    data, shared = ground.directory("origin-data"), ground.directory("shared")
    make_tree(data / "data" / "events.root")
    blocks = BLOCK.findall(CHAPTER.read_text())
    assert {host for host, _ in blocks} == {"client", "manager", "filler"}
    with Hosts(*ROLES) as hosts:
        machines = {host.name: Machine(ground, host, hosts, shared) for host in hosts}
        origin = start_origin(ground, hosts["origin"], data)
        try:
            for host, block in blocks:
                machines[host].type(block)
        finally:
            machines["manager"].stop()
            machines["filler"].stop()
            origin.stop()
