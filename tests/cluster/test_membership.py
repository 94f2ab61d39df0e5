"""Nodes that log in to a stock redirector: where it sends clients, and what happens when nodes come and go."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from harness.clients import FETCHERS
from harness.cluster import Cluster, Manager, place, places, ready
from harness.content import Pattern, assert_same
from harness.ground import Ground
from harness.raw_client import RawClient
from harness.waiting import until

ROUNDS = 5


def test_new_files_go_to_one_node_each_without_a_wait(
    ground: Ground, cluster_of: Callable[[int], Cluster], manager: Manager, names: dict[str, Pattern]
) -> None:
    """Both nodes get a share, a file stays where it is, and the origin sends each byte once."""
    nodes = cluster_of(2)
    nodes.start_all()
    with ready(manager) as client:
        first = {path: place(client, path) for path in names}
        assert {waited for _, waited in first.values()} == {0}
        again = {path: place(client, path) for path in names}
    assert again == first
    ports = [port for port, _ in first.values()]
    assert min(ports.count(port) for port in nodes.ports) >= len(names) // 8
    target = ground.directory("copies") / "copy"
    for path, pattern in list(names.items())[:6]:
        for _ in range(2):
            result = FETCHERS["xrdcp"](ground, f"{manager.url}/{path}", target, {})
            assert result.returncode == 0, result.stderr
            assert_same(target.read_bytes(), pattern.all(), path)
    assert nodes.origin_bytes() == sum(pattern.size for pattern in list(names.values())[:6])
    metrics = [node.metrics() for node in nodes.nodes.values()]
    assert sum(each.total("forebay_cluster_opens_total", placed="other_node") for each in metrics) == 0


def test_simultaneous_opens_of_a_new_file_go_to_one_node(
    cluster_of: Callable[[int], Cluster], manager: Manager
) -> None:
    """Eight clients that want the same new file at the same moment find one node."""
    nodes = cluster_of(2)
    nodes.start_all()
    ready(manager).close()
    clients = [RawClient("127.0.0.1", manager.port) for _ in range(8)]
    rounds = 0
    with ThreadPoolExecutor(8) as pool:
        for number in range(20 * ROUNDS):
            until(lambda: time.time() % 1 < 0.2, "a second begins")
            second, path = int(time.time()), f"/cluster/herd{number}"
            placed = set(pool.map(lambda client, path=path: place(client, path), clients))
            waited = max(seconds for _, seconds in placed)
            if int(time.time() - waited) != second:
                # The manager counts the time of a look-up in whole seconds, and selects a node itself in the next one.
                continue
            assert len(placed) == 1, path
            assert waited == 0
            rounds += 1
            if rounds == ROUNDS:
                break
    assert rounds == ROUNDS, "look-ups of eight clients take less than a second"
    for client in clients:
        client.close()


def test_only_files_of_a_lost_node_move_and_none_moves_back(
    cluster_of: Callable[[int], Cluster], manager: Manager, names: dict[str, Pattern]
) -> None:
    """A killed node's files open elsewhere within seconds; when it returns, everything stays where it is."""
    nodes = cluster_of(3)
    nodes.start_all()
    with ready(manager) as client:
        before = {path: nodes.read(client, path, pattern) for path, pattern in names.items()}
        lost = nodes.ports[0]
        nodes.kill(lost)
        until(lambda: lost not in places(client, names).values(), "its files open elsewhere", within=60)
        after = places(client, names)
        assert all(after[path] == before[path] for path in names if before[path] != lost)
        nodes.wait_for_members(2)
        nodes.start(lost)
        returned = places(client, names)
        # The node has its files: the redirector may send clients to either of two nodes that hold one.
        moved = [path for path in names if returned[path] != after[path] and before[path] != lost]
        assert moved == []


def test_a_third_node_gets_new_files_only(
    cluster_of: Callable[[int], Cluster], manager: Manager, names: dict[str, Pattern]
) -> None:
    """Old files stay with their nodes, although the new one is best for a third of them."""
    nodes = cluster_of(3)
    for port in nodes.ports[:2]:
        nodes.start(port)
    with ready(manager) as client:
        before = {path: place(client, path) for path in names}
        third = nodes.ports[2]
        nodes.start(third)
        for _ in range(3):
            assert {path: place(client, path) for path in names} == before
        new = [place(client, f"/cluster/new{number}") for number in range(60)]
        assert 3 <= sum(port == third for port, _ in new) <= 45
        assert {waited for _, waited in new} == {0}


def test_a_node_that_stops_in_order_hands_over_its_files_at_once(
    cluster_of: Callable[[int], Cluster], manager: Manager, names: dict[str, Pattern]
) -> None:
    """Its files open elsewhere without the wait for a node that may return."""
    nodes = cluster_of(2)
    nodes.start_all()
    with ready(manager) as client:
        before = places(client, names)
        leaver, stayer = nodes.ports
        assert leaver in before.values()
        nodes.nodes.pop(leaver).stop()
        until(lambda: set(places(client, names).values()) == {stayer}, "its files open elsewhere", within=60)


def test_nodes_return_to_a_manager_that_was_restarted(
    ground: Ground, cluster_of: Callable[[int], Cluster], manager: Manager, names: dict[str, Pattern]
) -> None:
    """It forgets all files, and asks the nodes again: nothing moves."""
    nodes = cluster_of(2)
    nodes.start_all()
    with ready(manager) as client:
        before = places(client, names)
    manager.stop()
    for node in nodes.nodes.values():
        until(lambda n=node: n.metrics().total("forebay_cluster_managers") == 0, "it has lost the manager")  # type: ignore[misc]
    again = manager.again(ground)
    try:
        for port in nodes.ports:
            until(lambda p=port: again.logins(p) == 1, "it is logged in again", within=90)  # type: ignore[misc]
        with ready(again) as client:
            assert places(client, names) == before
    finally:
        again.stop()
