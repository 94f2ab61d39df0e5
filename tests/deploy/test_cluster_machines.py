"""Redirectors and nodes of a cluster, set up by Puppet and by Ansible from the same parameters."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.ground import REPOSITORY, Ground, package
from harness.machine import Machine
from harness.provisioning import CONFIGURATION, DEPLOY, PUPPET_MODULE

pytestmark = pytest.mark.timeout(900)
"""Both tools take their time where several tests run."""

REDIRECTOR = "/etc/xrootd/xrootd-redirector.cfg"
EXPORTS = [
    {"path": "/store", "origins": ["root://origin.example.org:1094", "http://dav.example.org/store"]},
    {"path": "/data", "origins": ["root://other.example.org:1094"]},
]
NODE: dict[str, Any] = {
    "exports": EXPORTS,
    "managers": ["redirector-1.example.org", "redirector-2.example.org"],
    "members": ["cache-1.example.org", "cache-2.example.org"],
    "cms_port": 1214,
    "port": 1095,
    "store": "/srv/cache",
    "budget": "3TiB",
    "metrics": "192.0.2.1:9091",
    "manage_service": False,
}
MANAGER: dict[str, Any] = {"exports": EXPORTS, "allow": ["cache-*.example.org"], "manage_service": False}

Set = Callable[[Machine, str, Mapping[str, Any]], bool]
"""Brings a machine to a role with its parameters; whether something was changed."""


def puppet(machine: Machine, role: str, parameters: Mapping[str, Any]) -> bool:
    """Puppet without a server."""
    body = ", ".join(f"{name} => {written(value)}" for name, value in parameters.items())
    machine.write("/tmp/site.pp", f"class {{ 'forebay::{role}': {body} }}\n")
    command = ["puppet", "apply", "--detailed-exitcodes", "--modulepath", str(PUPPET_MODULE.parent), "/tmp/site.pp"]
    done = machine.run(*command)
    assert done.returncode in (0, 2), done.stdout + done.stderr
    return done.returncode == 2


def written(value: Any) -> str:  # noqa: ANN401
    """A value in Puppet's language."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} => {written(item)}" for name, item in value.items()) + "}"
    return "[" + ", ".join(map(written, value)) + "]" if isinstance(value, list) else json.dumps(value)


def ansible(machine: Machine, role: str, parameters: Mapping[str, Any]) -> bool:
    """Ansible on the machine itself."""
    # All roles have the same list of redirectors.
    given = {"role": role, "managers": NODE["managers"], **parameters}
    if "package_source" in given:
        given["package"] = given.pop("package_source")
    named = {f"forebay_cluster_{name}": value for name, value in given.items()}
    local = {"ansible_python_interpreter": "/usr/bin/python3", "ansible_become": False, "ansible_pipelining": True}
    machine.write("/tmp/parameters.json", json.dumps({**named, **local}))
    machine.write("/tmp/inventory.ini", "[forebay_cluster]\nlocalhost ansible_connection=local\n")
    program = str(Path(sys.executable).parent / "ansible-playbook")
    arguments = ["-i", "/tmp/inventory.ini", "-e", "@/tmp/parameters.json", str(DEPLOY / "ansible" / "cluster.yml")]
    done = machine.run("env", "HOME=/root", program, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return "changed=0" not in done.stdout


TOOLS = pytest.mark.parametrize("bring", [puppet, ansible], ids=["puppet", "ansible"])


@pytest.fixture
def machine(ground: Ground) -> Iterator[Machine]:
    """A machine on which there is nothing of ours yet."""
    with Machine(ground) as machine:
        yield machine


@TOOLS
def test_node_is_installed_and_configured(bring: Set, machine: Machine) -> None:
    parameters = {**NODE, "package_source": machine.take(package())}
    assert bring(machine, "node", parameters)
    text = machine.read(CONFIGURATION)
    configuration = tomllib.loads(text)
    assert configuration["cluster"] == {
        "managers": ["redirector-1.example.org:1214", "redirector-2.example.org:1214"],
        "members": ["cache-1.example.org:1095", "cache-2.example.org:1095"],
    }
    assert configuration["export"] == EXPORTS
    assert configuration["server"] == {"listen": ["[::]:1095"]}
    assert (configuration["store"], configuration["purge"]) == ({"path": "/srv/cache"}, {"budget": "3TiB"})
    assert configuration["admin"] == {"listen": "192.0.2.1:9091", "socket": "/run/forebay/admin.sock"}
    machine.done("forebay", "check-config", CONFIGURATION)
    assert machine.done("stat", "--format=%U:%G %a", "/srv/cache").strip() == "forebay:forebay 750"
    assert not bring(machine, "node", parameters)


@TOOLS
def test_redirector_is_configured_as_the_documentation_says(bring: Set, machine: Machine) -> None:
    assert bring(machine, "redirector", MANAGER)
    lines = machine.read(REDIRECTOR).splitlines()
    documented = (REPOSITORY / "docs" / "scale-out.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("all.export")] == [
        "all.export /store stage r/o",
        "all.export /data stage r/o",
    ]
    for line in lines:
        if line.startswith(("cms.", "all.role", "xrd.port")):
            assert line in documented, line
    assert "cms.allow host cache-*.example.org" in lines


def test_playbook_and_inventory_are_understood(ground: Ground) -> None:
    scripts, folder = Path(sys.executable).parent, DEPLOY / "ansible"
    inventory = folder / "inventory_cluster.yml"
    commands: list[list[str | Path]] = [
        [scripts / "ansible-playbook", "-i", inventory, "--syntax-check", folder / "cluster.yml"],
        [scripts / "ansible-inventory", "-i", inventory, "--list"],
    ]
    env = {"HOME": str(ground.directory("ansible")), "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    for command in commands:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL, env=env
        )
        assert done.returncode == 0, done.stderr
    roles = [host["forebay_cluster_role"] for host in json.loads(done.stdout)["_meta"]["hostvars"].values()]
    assert sorted(roles) == ["node"] * 3 + ["redirector"] * 2
