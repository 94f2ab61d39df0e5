"""The three machines of disk caching on the fly, set up by Puppet and by Ansible from the same parameters."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.ground import REPOSITORY, Ground, package, program
from harness.machine import Machine

pytestmark = pytest.mark.timeout(900)
"""Both tools take their time where several tests run."""

DEPLOY = REPOSITORY / "deploy"
MODULE = DEPLOY / "puppet" / "forebay"
CONFIGURATION = "/etc/forebay/forebay.toml"
ENVIRONMENT = "/etc/profile.d/forebay.sh"
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
    "purge": ['budget = "3TiB"'],
    "store": [f'path = "{STORE}"'],
}

Apply = Callable[[Machine, Mapping[str, Any]], tuple[int, bool, str]]
"""Brings a machine to its parameters: exit status, whether something was changed, output."""


def puppet(machine: Machine, parameters: Mapping[str, Any]) -> tuple[int, bool, str]:
    """Puppet without a server."""
    named = {"package": "package_source", "plugin": "plugin_source"}
    given = {named.get(name, name): value for name, value in parameters.items()}
    # JSON's texts, numbers, booleans and lists are Puppet's too.
    body = ", ".join(f"{name} => {json.dumps(value)}" for name, value in given.items())
    machine.write("/tmp/site.pp", f"class {{ 'forebay': {body} }}\n")
    command = ["puppet", "apply", "--detailed-exitcodes", "--modulepath", str(MODULE.parent), "/tmp/site.pp"]
    done = machine.run(*command)
    return (0 if done.returncode in (0, 2) else 1), done.returncode == 2, done.stdout + done.stderr


def ansible(machine: Machine, parameters: Mapping[str, Any]) -> tuple[int, bool, str]:
    """Ansible on the machine itself."""
    named = {f"forebay_{name}": value for name, value in parameters.items()}
    local = {"ansible_python_interpreter": "/usr/bin/python3", "ansible_become": False, "ansible_pipelining": True}
    machine.write("/tmp/parameters.json", json.dumps({**named, **local}))
    inventory = "/tmp/inventory.ini"
    machine.write(inventory, "[forebay]\nlocalhost ansible_connection=local\n")
    playbook = [
        "ansible-playbook",
        "-i",
        inventory,
        "-e",
        "@/tmp/parameters.json",
        str(DEPLOY / "ansible" / "site.yml"),
    ]
    done = machine.run("env", "HOME=/root", str(Path(sys.executable).parent / playbook[0]), *playbook[1:])
    return done.returncode, "changed=0" not in done.stdout, done.stdout + done.stderr


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


@pytest.mark.parametrize("role", ["manager", "filler"])
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
    told = machine.done("sh", "-c", f". {ENVIRONMENT} && echo $XRD_PLUGIN $FOREBAY")
    assert told.strip() == f"libXrdClForebay.so {SITE['manager']}"
    assert not machine.has("/usr/bin/forebay")


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"role": "manager", "filler": None}, "filler"), ({"allow": []}, "allow"), ({"fill": "all"}, "fill")],
    ids=["a manager without a filler", "no origins", "no such setting"],
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
    manifests = [str(path) for path in sorted(MODULE.rglob("*.pp"))]
    templates = [str(path) for path in sorted(MODULE.rglob("*.epp"))]
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
