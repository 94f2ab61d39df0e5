#!/usr/bin/python3
"""Stands in for `systemctl` on machines without systemd: reads unit files with their drop-ins, and runs their commands.

It follows ExecStart=, ExecReload=, Type=notify, User=, Group=, UMask=, WorkingDirectory=, the directories of a service,
instances (%i), and passes the sockets of socket units that a service wants. It does not follow sandboxing, limits,
dependencies, restarts after a failure and stored descriptors. `enable` and `disable` are left to the real program.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

REAL = "/usr/bin/systemctl.real"
UNITS = [Path("/etc/systemd/system"), Path("/usr/lib/systemd/system")]
STATE = Path("/run/units")
START_SECONDS = 90.0
STOP_SECONDS = 120.0
POLL_SECONDS = 0.02
FIRST_PASSED = 3
DIRECTORIES = {
    "RuntimeDirectory": "/run",
    "StateDirectory": "/var/lib",
    "CacheDirectory": "/var/cache",
    "LogsDirectory": "/var/log",
}
Settings = dict[str, list[str]]


def read_unit(name: str) -> Settings:
    """The settings of a unit: its file or that of its template, then its drop-ins."""
    names = [name, re.sub(r"@[^.]*\.", "@.", name)]
    files = [unit / candidate for candidate in names for unit in UNITS if (unit / candidate).is_file()][:1]
    if not files:
        sys.exit(f"Unit {name} not found.")
    for candidate in names:
        files += [path for unit in reversed(UNITS) for path in sorted((unit / f"{candidate}.d").glob("*.conf"))]
    instance = name.partition("@")[2].rpartition(".")[0]
    settings: Settings = {}
    for line in "\n".join(file.read_text() for file in files).replace("\\\n", " ").splitlines():
        key, is_setting, value = line.strip().partition("=")
        if key.startswith(("#", ";", "[")) or not is_setting:
            continue
        value = value.strip().replace("%i", instance).replace("%I", instance)
        # An empty value removes the earlier ones.
        settings[key.strip()] = [*settings.get(key.strip(), []), value] if value else []
    return settings


def last(settings: Settings, key: str, default: str) -> str:
    """The value of a setting that has one."""
    return (settings.get(key) or [default])[-1]


def words(settings: Settings, key: str) -> list[str]:
    """The words of all values of a setting."""
    return [word for value in settings.get(key, []) for word in value.split()]


def pid_of(name: str) -> int | None:
    """The process of a unit, if it runs."""
    try:
        pid = int((STATE / f"{name}.pid").read_text())
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The exit status of a service stays until its parent reads it.
    return None if state == "Z" else pid


def open_sockets(settings: Settings) -> list[socket.socket]:
    """The listening sockets of the socket units that a service wants."""
    opened = []
    for unit in words(settings, "Wants"):
        if not unit.endswith(".socket"):
            continue
        wanted = read_unit(unit)
        path = Path(last(wanted, "ListenStream", ""))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(path))
        listening.listen()
        shutil.chown(path, last(wanted, "SocketUser", "root"), last(wanted, "SocketGroup", "root"))
        path.chmod(int(last(wanted, "SocketMode", "0666"), 8))
        opened.append(listening)
    return opened


def start(name: str) -> None:
    """Runs ExecStart= of a service, and waits until it is ready if the service reports that."""
    if pid_of(name):
        return
    settings = read_unit(name)
    user, umask = last(settings, "User", "root"), int(last(settings, "UMask", "0022"), 8)
    group = last(settings, "Group", user)
    for key, root in DIRECTORIES.items():
        for directory in words(settings, key):
            path = Path(root) / directory
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(int(last(settings, f"{key}Mode", "0755"), 8))
            shutil.chown(path, user, group)
    STATE.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notes:
        notes.bind(f"\0{name}-{os.getpid()}")
        notes.setblocking(False)
        sockets = open_sockets(settings)
        command = shlex.split(last(settings, "ExecStart", "").lstrip("-@+!:"))
        service = launch(name, command, sockets, user, group, umask, last(settings, "WorkingDirectory", "/"))
        (STATE / f"{name}.pid").write_text(str(service.pid))
        if last(settings, "Type", "simple") == "notify":
            wait_until_ready(name, service, notes)


def launch(
    name: str, command: list[str], sockets: list[socket.socket], user: str, group: str, umask: int, directory: str
) -> subprocess.Popen[bytes]:
    """Starts the process of a service, which keeps running after this program has ended."""
    moved = " ".join(f"{FIRST_PASSED + index}<&{item.fileno()}" for index, item in enumerate(sockets))
    script = f'exec {moved}; export LISTEN_PID=$$; exec "$@"' if sockets else 'exec "$@"'
    environment = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": f"@{name}-{os.getpid()}"}
    if sockets:
        environment["LISTEN_FDS"] = str(len(sockets))
    with (STATE / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            ["/bin/bash", "-c", script, "bash", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=directory,
            user=user,
            group=group,
            extra_groups=[],
            umask=umask,
            pass_fds=[item.fileno() for item in sockets],
            start_new_session=True,
        )


def wait_until_ready(name: str, service: subprocess.Popen[bytes], notes: socket.socket) -> None:
    """Waits for READY=1 of `sd_notify(3)`."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if service.poll() is not None:
            sys.exit(f"Job for {name} failed.\n{(STATE / f'{name}.log').read_text()}")
        try:
            note, descriptors, _, _ = socket.recv_fds(notes, 4096, 64)
        except BlockingIOError:
            time.sleep(POLL_SECONDS)
            continue
        for descriptor in descriptors:
            os.close(descriptor)
        if b"READY=1" in note.splitlines():
            return
    sys.exit(f"Job for {name} failed: it is not ready after {START_SECONDS} s.")


def stop(name: str) -> None:
    """Ends the process of a service with SIGTERM, and closes its sockets."""
    deadline = time.monotonic() + STOP_SECONDS
    pid = pid_of(name)
    if pid:
        os.kill(pid, signal.SIGTERM)
    while pid_of(name):
        if time.monotonic() > deadline:
            sys.exit(f"{name} does not stop.")
        time.sleep(POLL_SECONDS)
    for unit in words(read_unit(name), "Wants"):
        if unit.endswith(".socket"):
            Path(last(read_unit(unit), "ListenStream", "")).unlink(missing_ok=True)


def reload(name: str) -> None:
    """Runs ExecReload= of a service."""
    command = last(read_unit(name), "ExecReload", "/bin/false").replace("$MAINPID", str(pid_of(name)))
    subprocess.run(shlex.split(command), check=True)


def main() -> None:
    """Performs one verb for each unit."""
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    verb, units = arguments[0], [unit if "." in unit else f"{unit}.service" for unit in arguments[1:]]
    if verb in ("enable", "disable"):
        subprocess.run([REAL, verb, *units], check=True)
        verb = {"enable": "start", "disable": "stop"}[verb] if "--now" in sys.argv else "daemon-reload"
    for unit in units:
        if verb in ("stop", "restart"):
            stop(unit)
        if verb in ("start", "restart"):
            start(unit)
        if verb == "reload":
            reload(unit)
        if verb in ("status", "is-active"):
            pid = pid_of(unit)
            print(f"active {pid}" if pid else "inactive")
            sys.exit(0 if pid else 3)


if __name__ == "__main__":
    main()
