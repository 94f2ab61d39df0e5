"""The three machines of disk caching on the fly, set up by Puppet and by Ansible from the same parameters."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.ground import Ground, package, program
from harness.machine import Machine
from harness.provisioning import CONFIGURATION, DEPLOY, ENVIRONMENT, PUPPET_MODULE, Apply, ansible, puppet

pytestmark = pytest.mark.timeout(900)
"""Both tools take their time where several tests run."""

PLACE = "/etc/systemd/system/forebay.service.d/store.conf"
PLUGIN = "/usr/lib/forebay-plugin/libXrdClForebay-5.so"
STORE = "/srv/cluster/cache"
SITE: dict[str, Any] = {
    "manager": "root://manager.example.org:1094",
    "filler": "root://filler.example.org:1095",
    "allow": ["*.example.org:1094", "origin.example.net:*"],
    "store": STORE,
    "client_store": "/data/cache",
    "clients": ["10.1.*", "192.0.2.7"],
    "file_mode": "0640",
    "lease": "20min",
    "budget": "3TiB",
    "fill": "to-end",
    "port": 1095,
    "metrics": "192.0.2.1:9091",
    "uid": 931,
    "manage_service": False,
}
EXPECTED = {
    "server": ['listen = ["[::]:1095"]'],
    "forwarding": ['allow = ["*.example.org:1094", "origin.example.net:*"]', 'direct = "complete"', 'fill = "to-end"'],
    "direct": [
        'clients = ["10.1.*", "192.0.2.7"]',
        f'paths = ["{STORE}=/data/cache"]',
        'file_mode = "0640"',
        'lease = "20min"',
    ],
    "admin": ['listen = "192.0.2.1:9091"', 'socket = "/run/forebay/admin.sock"'],
    "purge": ['budget = "3TiB"'],
    "store": [f'path = "{STORE}"'],
}


@pytest.fixture(params=[puppet, ansible], ids=["puppet", "ansible"])
def apply(request: pytest.FixtureRequest) -> Apply:
    """Each of the tools in turn."""
    tool: Apply = request.param
    return tool


@pytest.fixture
def machine(ground: Ground) -> Iterator[Machine]:
    """A machine on which there is nothing of ours yet."""
    with Machine(ground) as machine:
        machine.done("mkdir", "-p", Path(STORE).parent.as_posix(), Path(PLUGIN).parent.as_posix())
        yield machine


def bring(apply: Apply, machine: Machine, parameters: Mapping[str, Any], *, is_changing: bool = True) -> None:
    """Brings a machine to its parameters, which changes something or finds nothing to do."""
    status, is_changed, output = apply(machine, parameters)
    assert (status, is_changed) == (0, is_changing), output


def sections(text: str) -> dict[str, list[str]]:
    """The lines of each section of a configuration."""
    found: dict[str, list[str]] = {}
    for part in text.split("\n[")[1:]:
        name, _, lines = part.partition("]\n")
        found[name] = [line for line in lines.splitlines() if line]
    return found


# Puppet's manager is one of the machines of test_on_the_fly.py.
@pytest.mark.parametrize(
    ("apply", "role"),
    [(puppet, "filler"), (ansible, "filler"), (ansible, "manager")],
    ids=["puppet-filler", "ansible-filler", "ansible-manager"],
    indirect=["apply"],
)
def test_server_is_installed_and_configured(apply: Apply, machine: Machine, role: str) -> None:
    deb = machine.take(package())
    if role == "manager":
        machine.done("mkdir", STORE)  # the filler has made it
    parameters = {**SITE, "role": role, "package": deb}
    bring(apply, machine, parameters)
    text = machine.read(CONFIGURATION)
    written = sections(text)
    for section, lines in EXPECTED.items():
        assert set(lines) <= set(written[section]), text
    assert f'role = "{role}"' in written["server"]
    assert ("manager" in written) == (role == "manager")
    machine.done("forebay", "check-config", CONFIGURATION)
    place = machine.read(PLACE)
    assert f"ReadWritePaths={STORE}" in place
    assert f"RequiresMountsFor={STORE}" in place
    assert "CacheDirectoryMode=0755" in place, "systemd sets it again at each start"
    units = [f"/usr/lib/systemd/system/forebay.{kind}" for kind in ("service", "socket")]
    assert machine.done("systemd-analyze", "verify", *units) == ""
    assert machine.done("id", "-u", "forebay").strip() == "931", "the same number on manager and filler"
    if role == "filler":
        bring(apply, machine, parameters, is_changing=False)
        assert machine.done("stat", "--format=%u:%g %a", STORE).strip() == "931:931 755"


def test_client_has_the_plug_in_and_two_variables(apply: Apply, machine: Machine) -> None:
    machine.write("/tmp/built.so", "a library\n")
    bring(apply, machine, {**SITE, "role": "client", "plugin": "/tmp/built.so", "plugin_path": PLUGIN})
    assert machine.read(PLUGIN) == "a library\n"
    reported = machine.done("sh", "-c", f". {ENVIRONMENT} && echo $XRD_PLUGIN $FOREBAY")
    assert reported.strip() == f"libXrdClForebay.so {SITE['manager']}"
    assert not machine.has("/usr/bin/forebay")


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"role": "manager", "filler": None}, "filler"), ({"fill": "all"}, "fill")],
    ids=["a manager without a filler", "no such setting"],
)
def test_wrong_parameters_are_refused_before_anything_is_done(
    apply: Apply, machine: Machine, wrong: dict[str, Any], named: str
) -> None:
    given = {"role": "filler", **SITE, **wrong}
    status, _, output = apply(machine, {name: value for name, value in given.items() if value is not None})
    assert status != 0
    assert named in output
    assert not machine.has(CONFIGURATION)


def test_module_is_understood() -> None:
    manifests = [str(path) for path in sorted(PUPPET_MODULE.rglob("*.pp"))]
    templates = [str(path) for path in sorted(PUPPET_MODULE.rglob("*.epp"))]
    for command in (["parser", "validate", *manifests], ["epp", "validate", *templates]):
        done = subprocess.run([program("puppet"), *command], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr


def test_playbook_and_inventory_are_understood(ground: Ground) -> None:
    scripts = Path(sys.executable).parent
    inventory = DEPLOY / "ansible" / "inventory.yml"
    commands: list[list[str | Path]] = [
        [scripts / "ansible-playbook", "-i", inventory, "--syntax-check", DEPLOY / "ansible" / "site.yml"],
        [scripts / "ansible-inventory", "-i", inventory, "--list"],
    ]
    for command in commands:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            stdin=subprocess.DEVNULL,
            env={"HOME": str(ground.directory("ansible")), "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"},
        )
        assert done.returncode == 0, done.stderr
    roles = {host["forebay_role"] for host in json.loads(done.stdout)["_meta"]["hostvars"].values()}
    assert roles == {"client", "manager", "filler"}
