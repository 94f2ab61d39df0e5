"""The tools that set up machines, run there with the module and the role of `deploy/`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .ground import REPOSITORY
from .machine import Machine

DEPLOY = REPOSITORY / "deploy"
PUPPET_MODULE = DEPLOY / "puppet" / "forebay"
CONFIGURATION = "/etc/forebay/forebay.toml"
ENVIRONMENT = "/etc/profile.d/forebay.sh"

Apply = Callable[[Machine, Mapping[str, Any]], tuple[int, bool, str]]
"""Brings a machine to its parameters: exit status, whether something was changed, output."""


def puppet(machine: Machine, parameters: Mapping[str, Any]) -> tuple[int, bool, str]:
    """Puppet without a server."""
    named = {"package": "package_source", "plugin": "plugin_source"}
    given = {named.get(name, name): value for name, value in parameters.items()}
    # JSON's texts, numbers, booleans and lists are Puppet's too.
    body = ", ".join(f"{name} => {json.dumps(value)}" for name, value in given.items())
    machine.write("/tmp/site.pp", f"class {{ 'forebay': {body} }}\n")
    command = ["puppet", "apply", "--detailed-exitcodes", "--modulepath", str(PUPPET_MODULE.parent), "/tmp/site.pp"]
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
