"""The part of systemd that concerns sockets: it keeps those of a service, and passes them to its next process."""

from __future__ import annotations

import fcntl
import os
import socket
from itertools import count
from pathlib import Path

from .forebay import Launch

FIRST_PASSED = 3
"""Number of the first descriptor that a service manager passes (`sd_listen_fds(3)`)."""
FIRST_OWN = 100
"""Numbers below it may be those of passed descriptors."""
LISTENING = "0A"

_numbers = count()


class ServiceManager:
    """The manager of one service."""

    def __init__(self) -> None:
        name = f"forebay-test-{os.getpid()}-{next(_numbers)}"
        self._address = f"@{name}"
        self._notes = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notes.bind(f"\0{name}")
        self._notes.setblocking(False)
        self.sockets: dict[str, int] = {}
        """Descriptors that it holds, by their names."""

    def __enter__(self) -> ServiceManager:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self.sockets.values():
            os.close(descriptor)
        self._notes.close()

    def open(self, name: str, listening: socket.socket) -> None:
        """Holds a socket of a socket unit."""
        self._hold(name, os.dup(listening.fileno()))

    def read_notes(self) -> list[str]:
        """Obeys the notes that the service has sent, and returns them."""
        notes: list[str] = []
        while True:
            try:
                note, descriptors, _, _ = socket.recv_fds(self._notes, 4096, 8)
            except BlockingIOError:
                return notes
            notes.append(note.decode())
            fields = dict(line.split("=", 1) for line in notes[-1].splitlines())
            if "FDSTORE" in fields:
                (descriptor,) = descriptors
                self._hold(fields["FDNAME"], descriptor)
            elif "FDSTOREREMOVE" in fields:
                os.close(self.sockets.pop(fields["FDNAME"]))

    def launch(self) -> Launch:
        """The start of the next process of the service."""
        held = list(self.sockets.values())
        moved = " ".join(f"{FIRST_PASSED + index}<&{number}" for index, number in enumerate(held))
        closed = " ".join(f"{number}<&-" for number in held)
        script = f'exec {moved} {closed}; export LISTEN_PID=$$; exec "$@"'
        env = {"NOTIFY_SOCKET": self._address, "LISTEN_FDS": str(len(held)), "LISTEN_FDNAMES": ":".join(self.sockets)}
        return Launch(["/bin/bash", "-c", script, "bash"], held, env)

    def _hold(self, name: str, descriptor: int) -> None:
        assert name not in self.sockets, f"{name} is held already"
        self.sockets[name] = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_OWN)
        os.close(descriptor)


def queued(port: int) -> int:
    """Connections to a port of this machine that wait to be accepted."""
    waiting = 0
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, queues, *_ = line.split()
            if state == LISTENING and int(local.rsplit(":", 1)[1], 16) == port:
                # For a listening socket the length of the receive queue is the number of connections.
                waiting += int(queues.split(":")[1], 16)
    return waiting
