"""The Debian package: installed, configured, started as its unit says, removed and purged."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from harness.clients import fetch
from harness.content import Pattern, assert_same
from harness.ground import Ground, package
from harness.machine import Machine
from harness.waiting import until
from harness.xrootd import Origin

UNITS = "/usr/lib/systemd/system"
CONFIGURATION = "/etc/forebay/forebay.toml"
SOCKET = "/run/forebay/admin.sock"
ENABLED = [
    "/etc/systemd/system/multi-user.target.wants/forebay.service",
    "/etc/systemd/system/sockets.target.wants/forebay.socket",
]
PATH = "/sizes/many-blocks.bin"


@pytest.fixture
def machine(ground: Ground) -> Iterator[Machine]:
    """A machine on which the package is installed."""
    with Machine(ground) as machine:
        machine.done("dpkg", "--install", machine.take(package()))
        yield machine


def settings(machine: Machine, unit: str, name: str) -> list[str]:
    """A setting of an installed unit."""
    return re.findall(rf"^{name}=(.*)$", machine.read(f"{UNITS}/{unit}"), flags=re.MULTILINE)


def test_installed_machine_is_ready_to_be_configured(machine: Machine) -> None:
    units = [f"{UNITS}/forebay.{kind}" for kind in ("service", "socket")]
    assert machine.done("systemd-analyze", "verify", *units) == "", "understood without a warning"
    as_user = ["setpriv", "--reuid=forebay", "--regid=forebay", "--clear-groups"]
    machine.done(*as_user, "forebay", "check-config", CONFIGURATION)
    (socket,) = settings(machine, "forebay.socket", "ListenStream")
    assert f'socket = "{socket}"' in machine.read(CONFIGURATION)
    places = [f"/{place}/forebay" for place in ("var/cache", "var/lib", "var/log", "run")]
    assert machine.done("stat", "--format=%n %a %U:%G", *places).splitlines() == [
        "/var/cache/forebay 750 forebay:forebay",
        "/var/lib/forebay 700 forebay:forebay",
        "/var/log/forebay 750 forebay:forebay",
        "/run/forebay 755 forebay:forebay",
    ]
    assert machine.done("getent", "group", "forebay-admin")
    pages = ("man/man1/forebay-serve.1.gz", "man/man1/forebay-authz-explain.1.gz", "man/man5/forebay.toml.5.gz")
    for documents in (*pages, "bash-completion/completions/forebay", "doc/forebay/example.toml"):
        assert machine.has(f"/usr/share/{documents}")


def test_installed_server_serves_and_is_administered_over_the_socket_that_systemd_opens(
    machine: Machine, ground: Ground, plain_origin: Origin, patterns: dict[str, Pattern]
) -> None:
    port = ground.free_port()
    text = machine.read(CONFIGURATION).replace("root://origin.example.org:1094", plain_origin.url)
    text = text.replace('"[::]:1094"', f'"127.0.0.1:{port}"').replace('"127.0.0.1:9090"', '"127.0.0.1:0"')
    machine.write(CONFIGURATION, text)
    (start,) = settings(machine, "forebay.service", "ExecStart")
    (user,) = settings(machine, "forebay.service", "User")
    activate = ["systemd-socket-activate", "--listen", SOCKET]
    as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all"]
    server = machine.start(ground, "installed", [*activate, *as_user, *start.split()])
    server.wait_for_line(r"^Listening on ")
    until(lambda: "ready" in machine.done("forebay", "status"), "the server is started by a connection, and ready")
    server.wait_for_line(rf"^admin unix:{SOCKET}$")
    for turn in ("cold", "warm"):
        assert_same(fetch("xrdcp", ground, f"root://127.0.0.1:{port}/{PATH}", {}), patterns[PATH].all(), turn)
    until(lambda: PATH in machine.done("forebay", "ls", "/**"), "the index names the file")
    assert server.stop() == 0
    assert machine.has(SOCKET), "the socket is systemd's"


def test_installing_again_keeps_the_configuration_and_removing_keeps_the_cache(machine: Machine) -> None:
    machine.write(CONFIGURATION, machine.read(CONFIGURATION) + "# ours\n")
    machine.done("dpkg", "--install", f"/tmp/{package().name}")
    assert machine.read(CONFIGURATION).endswith("# ours\n")
    machine.done("touch", "/var/cache/forebay/kept")
    machine.done("systemctl", "enable", "forebay")
    for link in ENABLED:
        assert machine.run("test", "-L", link).returncode == 0, link
    machine.done("dpkg", "--remove", "forebay")
    assert not machine.has("/usr/bin/forebay")
    for link in ENABLED:
        assert machine.run("test", "-L", link).returncode != 0, link
    assert machine.has("/var/cache/forebay/kept")
    assert machine.has(CONFIGURATION)
    machine.done("dpkg", "--purge", "forebay")
    for place in ("etc", "var/cache", "var/lib", "var/log", "usr/share/doc"):
        path = f"/{place}/forebay"
        assert not machine.has(path), path
