"""A node is drained and stopped: stock clients go to another one within seconds."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from harness import forebay
from harness.clients import FETCHERS
from harness.cluster import Cluster, Manager, ready
from harness.content import Pattern, assert_same
from harness.ground import Ground, program, root_python
from harness.pausing import PausingClient
from harness.root_files import Sums
from harness.waiting import until

# As by default: a client that tried the stopped node again would be ended by the time limit of the tests.
UNHURRIED = {"XRD_CONNECTIONWINDOW": "120", "XRD_CONNECTIONRETRY": "5", "XRD_STREAMERRORWINDOW": "1800"}
READ = "/sizes/many-blocks.bin"


def drain(nodes: Cluster, port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`forebay drain`."""
    return forebay.run(nodes.ground, "drain", "--admin", str(nodes.sockets[port]), *arguments)


def open_files(nodes: Cluster, port: int) -> int:
    """Files that clients have open at a node."""
    return int(nodes.nodes[port].metrics().total("forebay_open_handles"))


def test_readers_with_open_files_continue_at_another_node(
    cluster_of: Callable[[int], Cluster],
    manager: Manager,
    patterns: dict[str, Pattern],
    tree_path: str,
    tree_sums: Sums,
) -> None:
    """Clients of 5.5 (PyROOT) and 6.2 (Python bindings) open their files again at the redirector."""
    nodes = cluster_of(2)
    nodes.start_all()
    ready(manager).close()
    with (
        PausingClient(sys.executable, "pyxrootd_halves.py", f"{manager.url}/{READ}", env=UNHURRIED) as reader,
        PausingClient(root_python(), "pyroot_loop.py", f"{manager.url}/{tree_path}", env=UNHURRIED) as analysis,
    ):
        reader.until_half()
        analysis.until_half()
        for port in nodes.ports:
            if open_files(nodes, port):
                drained = drain(nodes, port, "--wait", "--at-most", "0")
                assert drained.returncode == 1
                assert "still open" in drained.stderr
                assert nodes.nodes.pop(port).stop() == 0
                break
        reader.go_on()
        assert json.loads(reader.finish())["sha256"] == hashlib.sha256(patterns[READ].all()).hexdigest()
        assert sum(json.loads(analysis.finish())) == tree_sums.values


def test_copies_begun_during_a_planned_stop_succeed(
    ground: Ground, cluster_of: Callable[[int], Cluster], manager: Manager, names: dict[str, Pattern]
) -> None:
    """The redirector sends some of them to the draining node before it learns of the drain; they come back to it."""
    nodes = cluster_of(2)
    nodes.start_all()
    ready(manager).close()
    leaver = nodes.ports[0]

    def copy(path: str) -> None:
        target = ground.directory("copies") / "copy"
        result = FETCHERS["xrdcp"](ground, f"{manager.url}/{path}", target, UNHURRIED)
        assert result.returncode == 0, result.stderr
        assert_same(target.read_bytes(), names[path].all(), path)

    with ThreadPoolExecutor(3) as pool:
        before = [pool.submit(copy, path) for path in list(names)[:6]]
        during = [pool.submit(copy, path) for path in names]
        until(lambda: all(each.done() for each in before), "some have been copied", within=120)
        drained = drain(nodes, leaver, "--wait")
        assert drained.returncode == 0, drained.stderr
        assert nodes.nodes.pop(leaver).stop() == 0
        for each in [*before, *during]:
            each.result()


def test_clients_of_http_are_refused_at_once_and_come_back(
    cluster_of: Callable[[int], Cluster], names: dict[str, Pattern]
) -> None:
    nodes = cluster_of(1)
    (port,) = nodes.ports
    nodes.start(port)
    path, pattern = next(iter(names.items()))
    url = f"http://{nodes.host(port)}:{port}{path}"
    command = [str(program("curl")), "--silent", "--fail", "--max-time", "100", url]
    assert drain(nodes, port).returncode == 0
    refused = subprocess.run(
        [*command, "--write-out", "%{http_code} %header{retry-after}"], capture_output=True, check=False
    )
    assert refused.returncode == 22
    status, seconds = refused.stdout.decode().split()
    assert (status, int(seconds) <= 10) == ("503", True)
    again = subprocess.Popen([*command, "--retry", "20"], stdout=subprocess.PIPE)
    assert drain(nodes, port, "--undo").returncode == 0
    assert_same(again.communicate(timeout=120)[0], pattern.all(), path)
    assert again.returncode == 0
