"""The chapter "Set up disk caching on the fly in 15 minutes", typed as written: each block on the host it names."""

from __future__ import annotations

import re
from pathlib import Path

from harness import xrootd
from harness.ground import REPOSITORY, Ground
from harness.hosts import Host, Hosts
from harness.named_host import NamedHost
from harness.root_files import make_tree
from harness.waiting import until

CHAPTER = REPOSITORY / "docs" / "on-the-fly.md"
BLOCK = re.compile(r"^```sh (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROLES = ("client", "manager", "filler", "origin")

# Replaces systemd, which does not run in a namespace: starts and stops the server as the unit of the package does.
SYSTEMCTL = """#!/bin/sh
set -eu
cd "$HOME"
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


class Machine(NamedHost):
    """A host of the chapter."""

    def __init__(self, ground: Ground, host: Host, hosts: Hosts, shared: Path) -> None:
        super().__init__(ground, host, hosts, {"/srv": shared})
        stand_in = self.programs / "systemctl"
        stand_in.write_text(SYSTEMCTL)
        stand_in.chmod(0o755)

    def stop(self) -> None:
        """Ends servers that are still running."""
        self.type("systemctl stop forebay")


def test_chapter_works_as_it_is_written(ground: Ground) -> None:
    data, shared = ground.directory("origin-data"), ground.directory("shared")
    make_tree(data / "data" / "events.root")
    blocks = BLOCK.findall(CHAPTER.read_text())
    assert {host for host, _ in blocks} == {"client", "manager", "filler"}
    with Hosts(*ROLES) as hosts:
        machines = {host.name: Machine(ground, host, hosts, shared) for host in hosts}
        origin = xrootd.on_host(ground, hosts["origin"], data)
        try:
            for host, block in blocks:
                if host == "client":
                    # Before that it sends clients to the origin.
                    log = machines["manager"].directory / "log"
                    until(lambda log=log: "the filler answers" in log.read_text(), "the manager finds the filler")  # type: ignore[misc]
                machines[host].type(block)
        finally:
            machines["manager"].stop()
            machines["filler"].stop()
            origin.stop()
