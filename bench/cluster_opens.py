"""Opens through a redirector, in a cluster of Forebay nodes and one of stock caches, and what changes of members cost.

Usage: .venv/bin/python bench/cluster_opens.py [FILES] > rows.jsonl; FOREBAY and FOREBAY_BENCH name the binaries.

Rows of kind `open` are one open of one file at one place: `ms` until the file is open, `redirect_ms` until the client
is redirected, `waited_s` for which it had to wait before. `new` files are in no cache; `known` ones were opened before.
Rows of kind `refetch` are bytes from the origin after an event, with those of all files.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from harness import cluster, forebay, process, xrootd
from harness.content import Pattern
from harness.ground import Ground
from harness.process import Process
from harness.raw_client import RawClient
from harness.waiting import until
from harness.wire import Status

SIZE = 100_000
NODES = 2


def stock_nodes(ground: Ground, manager: cluster.Manager, origin: str) -> list[int]:
    """Stock caches, each with the `cmsd` that its cluster needs."""
    ports = []
    for number in range(NODES):
        port, node_port = ground.free_port(), ground.free_port()
        store, admin = ground.directory("stock-store"), ground.directory("stock-admin")
        shared = ["all.role server", f"all.manager 127.0.0.1:{manager.node_port}", f"oss.localroot {store}"]
        cache = ["all.export /", "ofs.osslib libXrdPss.so", "pss.cachelib libXrdPfc.so", f"pss.origin {origin}"]
        cache += ["pfc.ram 1g", "pfc.blocksize 64k", "pfc.prefetch 0"]
        names = ["all.export / stage r/o", "cms.space 1g 2g"]
        start(ground, "cmsd", f"stock-cmsd-{number}", node_port, [*shared, *names], admin)
        start(ground, "xrootd", f"stock-{number}", port, [*shared, *cache], admin)
        ports.append(port)
    return ports


def start(ground: Ground, executable: str, name: str, port: int, lines: list[str], admin: Path) -> Process:
    """A stock program with this configuration."""
    return xrootd._start(ground, executable, name, port, lines, admin)


class Clients:
    """One connection to each server."""

    def __init__(self) -> None:
        self.connections: dict[tuple[str, int], RawClient] = {}

    def at(self, host: str, port: int) -> RawClient:
        """The connection to a server."""
        if (host, port) not in self.connections:
            self.connections[host, port] = RawClient(host, port)
        return self.connections[host, port]

    def open(self, host: str, port: int, path: str) -> dict[str, float]:
        """Opens a file, wherever the server redirects to, and closes it."""
        waited, hop_ms = 0.0, 0.0
        began = time.perf_counter()
        while True:
            client = self.at(host, port)
            answer = client.try_open(path)
            if answer.status == Status.WAIT:
                seconds = struct.unpack(">i", answer.body[:4])[0]
                time.sleep(seconds)
                waited += seconds
            elif answer.status == Status.REDIRECT:
                hop_ms = (time.perf_counter() - began) * 1000
                port = struct.unpack(">i", answer.body[:4])[0]
                host = answer.body[4:].decode().partition("?")[0].strip("[]").removeprefix("::ffff:")
            else:
                total_ms = (time.perf_counter() - began) * 1000
                client.close_file(answer.ok()[:4])
                return {"ms": round(total_ms, 3), "redirect_ms": round(hop_ms, 3), "waited_s": waited}


@contextmanager
def ground() -> Iterator[Ground]:
    """A temporary area; everything that runs is stopped at its end."""
    area = Ground()
    try:
        yield area
    finally:
        for running in list(process.running):
            running.stop()
        area.remove()


def row(**values: object) -> None:
    """Prints a row."""
    print(json.dumps(values), flush=True)


def measure_opens(area: Ground, origin: xrootd.Origin, files: int) -> None:
    """Times of opens, the places in turns."""
    places = ["direct", "forebay", "stock"]
    names = {place: [f"/{place}/d{n % 7}/f{n}.bin" for n in range(files)] for place in [*places, "warm"]}
    for path in (path for paths in names.values() for path in paths):
        (origin.data / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        Pattern(SIZE, 1).write(origin.data / path[1:])
    ours, stock = cluster.manager(area, hold_ms=500), cluster.manager(area, hold_ms=500)
    nodes = cluster.Cluster(area, origin, [ours], NODES)
    nodes.start_all()
    stock_ports = stock_nodes(area, stock, origin.address)
    direct = forebay.cache(area, origin.url)
    clients = Clients()
    at = {"direct": direct.port, "forebay": ours.port, "stock": stock.port}
    # Connections, among them those of the nodes to the origin, are not part of the measurement.
    warm = [("127.0.0.1", port) for port in [*at.values(), *stock_ports]]
    for host, port in [*warm, *((nodes.host(port), port) for port in nodes.ports)]:
        for path in names["warm"][:3]:
            clients.open(host, port, path)
    for state in ["new", "known"]:
        for number in range(files):
            for place in places:
                path = names[place][number]
                row(kind="open", state=state, place=place, path=path, **clients.open("127.0.0.1", at[place], path))
    nodes.stop()


def measure_refetches(area: Ground, origin: xrootd.Origin, files: int) -> None:
    """Bytes from the origin when each file is read again after an event; all files have one size."""
    patterns = {f"/again/d{n % 7}/f{n}.bin": Pattern(SIZE, n) for n in range(files)}
    for path, pattern in patterns.items():
        (origin.data / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        pattern.write(origin.data / path[1:])
    manager = cluster.manager(area)
    nodes = cluster.Cluster(area, origin, [manager], NODES + 1)
    for port in nodes.ports[:NODES]:
        nodes.start(port)
    with cluster.ready(manager) as client:

        def read_all() -> dict[str, int]:
            return {path: nodes.read(client, path, pattern) for path, pattern in patterns.items()}

        def places() -> list[int]:
            return [cluster.place(client, path)[0] for path in patterns]

        def after(event: str, before: int) -> None:
            read_all()
            row(kind="refetch", event=event, bytes=nodes.origin_bytes() - before, of=files * SIZE)

        after("first reads", nodes.origin_bytes())
        before = nodes.origin_bytes()
        nodes.start(nodes.ports[NODES])
        after("a node is added", before)
        for port in nodes.ports:
            nodes.nodes.pop(port).stop()
            nodes.start(port)
            until(lambda: places() == places() == places(), "nothing alternates")
        after("each node is restarted in turn", 0)
        placed = read_all()
        lost = nodes.ports[0]
        share = [path for path in placed if placed[path] == lost]
        before = sum(int(node.metrics().origin_bytes) for port, node in nodes.nodes.items() if port != lost)
        nodes.kill(lost)
        began = time.monotonic()

        def opened_after(path: str) -> float:
            with RawClient("127.0.0.1", manager.port) as another:
                # As clients do, back to the redirector from a node that does not answer.
                while True:
                    try:
                        nodes.read(another, path, patterns[path])
                    except ConnectionError:
                        time.sleep(0.1)
                    else:
                        return time.monotonic() - began

        with ThreadPoolExecutor(len(share)) as pool:
            seconds = sorted(pool.map(opened_after, share))
        read_all()
        times = {"first_s": round(seconds[0], 1), "last_s": round(seconds[-1], 1)}
        fetched = nodes.origin_bytes() - before
        row(kind="refetch", event="a node is killed", bytes=fetched, of=files * SIZE, share=len(share) * SIZE, **times)


def main() -> None:
    """Measures, and prints the rows."""
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with ground() as area:
        origin = xrootd.plain(area, area.directory("data"))
        measure_opens(area, origin, files)
        measure_refetches(area, origin, files)


if __name__ == "__main__":
    main()
