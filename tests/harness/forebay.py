"""The product under test, run as its users run it."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .ground import Ground
from .metrics import Metrics, scrape
from .process import Process
from .raw_client import RawClient
from .waiting import until

BLOCK = 65536
MEMORY = "64MiB"
# Of each store, so that nothing depends on how full the file system of the machine is.
BUDGET = "1TiB"
COMMAND_SECONDS = 60.0


@dataclass(frozen=True)
class Launch:
    """How a service manager starts a server: a command before its own, descriptors, and variables."""

    command: Sequence[str] = ()
    descriptors: Sequence[int] = ()
    env: Mapping[str, str] = field(default_factory=dict)


class Forebay:
    """A running `forebay serve`."""

    def __init__(
        self,
        ground: Ground,
        arguments: Sequence[str],
        *,
        store: Path | None = None,
        name: str = "forebay",
        env: dict[str, str] | None = None,
        wrapper: Sequence[str] = (),
        before_exec: Callable[[], None] | None = None,
        admin: bool = False,
        launch: Launch | None = None,
    ) -> None:
        self.store = store
        launch = launch or Launch()
        argv = [*wrapper, *launch.command, str(ground.forebay), "serve", *arguments]
        self.process = Process(
            name,
            argv,
            ground.directory(name),
            env={**(env or {}), **launch.env},
            keep_root=bool(wrapper),
            before_exec=before_exec,
            pass_fds=launch.descriptors,
        )
        ready = self.process.wait_for_line(r"^ready root://(.+):(\d+)$")
        self.host, self.port = ready[1], int(ready[2])
        self.admin_url = ""
        if admin or "--admin-listen" in arguments:
            self.admin_url = self.process.wait_for_line(r"^admin (http://\S+)$")[1]

    def __enter__(self) -> Forebay:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def data(self) -> Path:
        """Where the cached files lie."""
        assert self.store is not None
        return self.store

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """URL of the server without a path."""
        return f"root://{self.address}"

    def file_url(self, path: str) -> str:
        """URL of a file given by its absolute path."""
        return f"{self.url}/{path}"

    def client(self, *, login: bool = True) -> RawClient:
        """A raw connection to it."""
        return RawClient(self.host, self.port, login=login)

    def metrics(self) -> Metrics:
        """The current metrics."""
        return scrape(self.admin_url)

    def settled_metrics(self) -> Metrics:
        """The metrics once no buffer is in use: whatever was being fetched and kept has arrived and is on the disk."""
        idle = "forebay_budget_used_bytes"
        return until(lambda: (now := self.metrics()).total(idle) == 0 and now, "every fill has ended")

    def stop(self) -> int | None:
        """SIGTERM; returns the exit status."""
        status = self.process.stop()
        if self.store is not None:
            # Each has 16 MiB, a start makes them again, and a run of all tests stops a thousand servers.
            for name in ("reserve", "index.reserve"):
                with contextlib.suppress(OSError):
                    (self.store / ".forebay" / name).unlink()
        return status


def cache(
    ground: Ground,
    origin_url: str,
    *,
    store: Path | None = None,
    extra: Sequence[str] = (),
    name: str = "cache",
    host: str = "127.0.0.1",
    port: int = 0,
    wrapper: Sequence[str] = (),
    before_exec: Callable[[], None] | None = None,
    launch: Launch | None = None,
) -> Forebay:
    """A cache in front of one origin, on a new store unless one is given."""
    store = store or ground.directory("store")
    arguments = [*_listen(port, host), *_store(store), "--origin", origin_url, *extra]
    return Forebay(ground, arguments, store=store, name=name, wrapper=wrapper, before_exec=before_exec, launch=launch)


def configured(
    ground: Ground, configuration: Mapping[str, Any], *, store: Path | None = None, launch: Launch | None = None
) -> Forebay:
    """A server run from a configuration file; listeners, the admin port and the store are added to it."""
    store = store or ground.directory("store")
    path = write_configuration(ground, complete(configuration, store))
    return Forebay(ground, ["--config", str(path)], store=store, name="configured", admin=True, launch=launch)


def complete(configuration: Mapping[str, Any], store: Path) -> dict[str, Any]:
    """Adds the settings of all test servers to a configuration."""
    full = dict(configuration)
    full["server"] = {"listen": ["127.0.0.1:0"], **configuration.get("server", {})}
    full["admin"] = {"listen": "127.0.0.1:0", **configuration.get("admin", {})}
    place = {} if "disk" in configuration else {"path": str(store)}
    full["store"] = {**place, "block_size": f"{BLOCK // 1024}KiB", **configuration.get("store", {})}
    full["memory"] = {"budget": MEMORY, **configuration.get("memory", {})}
    # Fillers that share a store have no budget.
    budget = {} if "parts" in full["store"] else {"budget": BUDGET}
    full["purge"] = {**budget, **configuration.get("purge", {})}
    return full


def write_configuration(ground: Ground, configuration: Mapping[str, Any]) -> Path:
    """Writes a configuration file: tables of simple values, and lists of such tables."""
    lines = []
    for section, value in configuration.items():
        tables = value if isinstance(value, list) else [value]
        for table in tables:
            lines.append(f"[[{section}]]" if isinstance(value, list) else f"[{section}]")
            lines += [f"{key} = {json.dumps(item)}" for key, item in table.items()]
    path = ground.directory("configuration") / "forebay.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def forwarding_cache(ground: Ground, allowed: str = "127.0.0.1:*", *, store: Path | None = None) -> Forebay:
    """A cache whose clients name the origin, for origins that match a pattern."""
    store = store or ground.directory("store")
    arguments = [*_listen(0), *_store(store), "--forwarding", allowed]
    return Forebay(ground, arguments, store=store, name="forwarding-cache")


def export(ground: Ground, data: Path) -> Forebay:
    """The product as a small read-only file server."""
    return Forebay(ground, [*_listen(0), "--export-dir", str(data)], name="export")


def run(ground: Ground, *arguments: str, within: float = COMMAND_SECONDS) -> subprocess.CompletedProcess[str]:
    """Runs another subcommand to its end."""
    command = [str(ground.forebay), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=within, check=False, stdin=subprocess.DEVNULL
    )


def _listen(port: int, host: str = "127.0.0.1") -> list[str]:
    return ["--listen", f"{host}:{port}", "--admin-listen", "127.0.0.1:0"]


def _store(store: Path) -> list[str]:
    return ["--store", str(store), "--block-size", f"{BLOCK // 1024}KiB", "--memory", MEMORY, "--budget", BUDGET]
