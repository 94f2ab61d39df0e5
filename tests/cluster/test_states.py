"""Members that drain, restart, or lose their disk or origin; managers that fail; member lists that differ."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness import cluster, forebay, xrootd
from harness.cluster import Cluster, Manager, place, places, ready
from harness.content import Pattern
from harness.forebay import Forebay
from harness.ground import Ground
from harness.loop_disk import LoopDisk
from harness.waiting import TimedOut, until
from harness.wire import OPEN_READ
from harness.xrootd import Origin, Release

from .conftest import SIZE

ClusterOf = Callable[[int], Cluster]


def members(node: Forebay) -> int:
    """The members that take new files, as a node counts them."""
    return int(node.metrics().total("forebay_cluster_members"))


def new_names(purpose: str) -> list[str]:
    """Names that no manager has been asked for."""
    return [f"/cluster/{purpose}{number}" for number in range(30)]


def drain(nodes: Cluster, port: int, *arguments: str) -> None:
    """`forebay drain`."""
    result = forebay.run(nodes.ground, "drain", "--admin", str(nodes.sockets[port]), *arguments)
    assert result.returncode == 0, result.stderr


def test_a_draining_node_gets_no_clients_until_it_is_undone(
    cluster_of: ClusterOf, manager: Manager, names: dict[str, Pattern]
) -> None:
    nodes = cluster_of(2)
    nodes.start_all()
    leaver, stayer = nodes.ports
    with ready(manager) as client:
        assert leaver in places(client, names).values()
        drain(nodes, leaver)
        until(lambda: members(nodes.nodes[stayer]) == 1, "the other node knows that it drains")
        until(lambda: set(places(client, names).values()) == {stayer}, "its files open at the other node")
        assert set(places(client, new_names("drained")).values()) == {stayer}
        drain(nodes, leaver, "--undo")
        nodes.wait_for_members(2)
        purposes = iter(range(1000))
        until(lambda: leaver in places(client, new_names(f"back{next(purposes)}-")).values(), "it gets new files again")


def located(nodes: Cluster, port: int, path: str) -> list[dict[str, Any]]:
    """The members in the order of `forebay locate` at a node."""
    result = forebay.run(nodes.ground, "locate", "--json", "--admin", str(nodes.sockets[port]), path)
    assert result.returncode == 0, result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout)["members"]
    return found


def status(nodes: Cluster, port: int) -> list[dict[str, Any]]:
    """The members in the status of a node."""
    result = forebay.run(nodes.ground, "status", "--json", "--admin", str(nodes.sockets[port]))
    assert result.returncode == 0, result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout)["members"]
    return found


def shares(nodes: Cluster, port: int) -> dict[str, tuple[str, float]]:
    """State and share of new files of each member, in the status of a node."""
    return {each["member"]: (each["state"], each["share"]) for each in status(nodes, port)}


def test_each_node_reports_where_a_file_is(cluster_of: ClusterOf, manager: Manager, names: dict[str, Pattern]) -> None:
    nodes = cluster_of(2)
    nodes.start_all()
    path, pattern = next(iter(names.items()))
    with ready(manager) as client:
        holder = nodes.read(client, path, pattern)
    nodes.nodes[holder].settled_metrics()
    other = next(port for port in nodes.ports if port != holder)
    until(lambda: located(nodes, other, path)[0]["file"] == "data", "the file is in the cache")
    names_of = [f"{nodes.host(port)}:{port}" for port in (holder, other)]
    shown = ("member", "file", "rank", "is_this_server")
    for port in nodes.ports:
        expected = [(names_of[0], "data", 1, port == holder), (names_of[1], "absent", 2, port == other)]
        # A member that does not answer in time is shown as unknown.
        until(
            lambda at=port, both=expected: [tuple(it[key] for key in shown) for it in located(nodes, at, path)] == both,  # type: ignore[misc]
            "both members answer",
        )
    half = dict.fromkeys(names_of, ("active", 0.5))
    until(lambda: shares(nodes, other) == half, "both stores are of one size")
    drain(nodes, holder)
    until(lambda: members(nodes.nodes[other]) == 1, "the other node knows that it drains")
    alone = {names_of[0]: ("inactive", 0.0), names_of[1]: ("active", 1.0)}
    until(lambda: shares(nodes, other) == alone, "the draining node has no share")
    until(
        lambda: (
            (names_of[0], "inactive", "data")
            in [(each["member"], each["state"], each["file"]) for each in located(nodes, other, path)]
        ),
        "the draining node keeps the file",
    )
    nodes.kill(holder)
    until(lambda: located(nodes, other, path)[1]["state"] == "silent", "the other node knows that it has died")
    assert located(nodes, other, path)[1]["file"] == "unknown"
    text = forebay.run(nodes.ground, "locate", "--admin", str(nodes.sockets[other]), path).stdout
    assert f"{nodes.host(other)}:{other} (this server)" in text
    assert ", silent" in text


def synced(nodes: Cluster, port: int) -> int:
    """The files of a node whose data is synced and whole."""
    result = forebay.run(nodes.ground, "ls", "--admin", str(nodes.sockets[port]))
    assert result.returncode == 0, result.stderr
    return result.stdout.count("100%")


def counted(nodes: Cluster, what: str) -> dict[int, int]:
    """Bytes of each node that are `foreign` or `duplicate`, in its metrics."""
    return {port: int(node.metrics().total(f"forebay_cluster_{what}_bytes")) for port, node in nodes.nodes.items()}


def test_copies_on_a_second_member_are_duplicates_and_files_on_another_one_are_foreign(
    cluster_of: ClusterOf, manager: Manager, names: dict[str, Pattern]
) -> None:
    """Metrics of each node, and the status and its page on any of them, show both and how the bytes are balanced."""
    nodes = cluster_of(2)
    nodes.start_all()
    paths = list(names)[:24]
    with ready(manager) as client:
        owners = {path: nodes.read(client, path, names[path]) for path in paths[:20]}
    unplaced = {path: int(located(nodes, nodes.ports[0], path)[0]["member"].rsplit(":", 1)[1]) for path in paths[20:]}
    first, second = nodes.ports

    copied = dict(list(owners.items())[:6])
    for path, owner in {**copied, **unplaced}.items():
        nodes.read_at(second if owner == first else first, path, names[path])
    duplicate = {port: SIZE * sum(owner != port for owner in copied.values()) for port in nodes.ports}
    foreign = {port: duplicate[port] + SIZE * sum(owner != port for owner in unplaced.values()) for port in nodes.ports}
    assert sum(duplicate.values()) == len(copied) * SIZE
    assert sum(foreign.values()) == (len(copied) + len(unplaced)) * SIZE
    held = {port: foreign[port] + SIZE * sum(owner == port for owner in owners.values()) for port in nodes.ports}
    until(lambda: counted(nodes, "foreign") == foreign, "bytes of files of the other member", within=60)
    until(lambda: counted(nodes, "duplicate") == duplicate, "bytes that the other member has, too", within=60)
    expected = {
        f"{nodes.host(port)}:{port}": {"held": held[port], "foreign": foreign[port], "duplicate": duplicate[port]}
        for port in nodes.ports
    }
    until(
        lambda: {each["member"]: each["bytes"] for each in status(nodes, second)} == expected,
        "the second node shows the bytes of both",
    )
    imbalance = {each["member"]: each["imbalance"] for each in status(nodes, second)}
    half = sum(held.values()) / 2
    assert imbalance == pytest.approx({f"{nodes.host(port)}:{port}": held[port] / half for port in nodes.ports})
    with urllib.request.urlopen(f"{nodes.nodes[second].admin_url}/", timeout=10) as answer:
        page = answer.read().decode()
    part = 100 * len(copied) / (len(paths) + len(copied))
    assert re.search(rf"Duplicates</span><span[^>]*>{part:.1f} %<", page)
    assert re.search(rf"Imbalance</span><span[^>]*>{max(imbalance.values()):.2f}<", page)


def test_a_rolling_restart_fetches_nothing_again(
    cluster_of: ClusterOf, manager: Manager, names: dict[str, Pattern]
) -> None:
    nodes = cluster_of(2)
    nodes.start_all()
    with ready(manager) as client:
        before = {path: nodes.read(client, path, pattern) for path, pattern in names.items()}
        assert set(before.values()) == set(nodes.ports)
        nodes.origin_bytes()
        for port in nodes.ports:
            nodes.nodes.pop(port).stop()
            nodes.start(port)
            # Nodes that stood in have given the files back when no client is sent to them any more.
            until(lambda: all(places(client, names) == before for _ in range(3)), "all files are where they were")
        for path, pattern in names.items():
            assert nodes.read(client, path, pattern) == before[path]
    assert nodes.origin_bytes() == 0


def test_a_restart_in_place_moves_nothing(cluster_of: ClusterOf, manager: Manager, names: dict[str, Pattern]) -> None:
    """SIGUSR2: the node does not log out, and its clients wait in the queue of its socket."""
    nodes = cluster_of(2)
    nodes.start_all()
    restarted, other = nodes.ports
    with ready(manager) as client:
        before = {path: nodes.read(client, path, pattern) for path, pattern in names.items()}
        fetched = nodes.nodes[other].settled_metrics().origin_bytes
        logins = manager.logins(restarted)
        nodes.nodes[restarted].process.signal(signal.SIGUSR2)
        until(lambda: manager.logins(restarted) > logins, "it is logged in again", within=60)
        until(
            lambda: all(places(client, names) == before for _ in range(3)), "all files are where they were", within=60
        )
        for path, pattern in names.items():
            assert nodes.read(client, path, pattern) == before[path]
    assert nodes.nodes[other].settled_metrics().origin_bytes == fetched


@pytest.fixture
def second_manager(ground: Ground, release: Release) -> Iterator[Manager]:
    """Another redirector."""
    running = cluster.manager(ground, release=release)
    yield running
    running.stop()


def test_either_of_two_managers_may_be_killed(
    ground: Ground, plain_origin: Origin, manager: Manager, second_manager: Manager, names: dict[str, Pattern]
) -> None:
    """Both send clients to the same nodes, and one that returns learns the files again."""
    nodes = Cluster(ground, plain_origin, [manager, second_manager], 2)
    try:
        nodes.start_all()
        with ready(manager) as client, ready(second_manager) as other:
            before = places(client, names)
            assert places(other, names) == before
            manager.kill()
            later = {path: place(other, path) for path in new_names("later")}
            assert {waited for _, waited in later.values()} == {0}
            assert places(other, names) == before
        again = manager.again(ground)
        try:
            for port in nodes.ports:
                until(lambda p=port: again.logins(p) == 1, "it is logged in again")  # type: ignore[misc]
            with ready(again) as client:
                assert places(client, names) == before
                assert places(client, later) == {path: port for path, (port, _) in later.items()}
        finally:
            again.stop()
    finally:
        nodes.stop()


def test_nodes_with_different_lists_of_members_serve_every_file(
    cluster_of: ClusterOf, manager: Manager, names: dict[str, Pattern]
) -> None:
    """Files may get a second copy; none is unavailable."""
    nodes = cluster_of(2)
    first, second = nodes.ports
    node = nodes.start(first, members=[first])
    assert members(node) == 1
    nodes.start(second, alive=1)
    assert members(nodes.nodes[second]) == 1
    with ready(manager) as client:
        for path, pattern in list(names.items())[:10]:
            assert nodes.read(client, path, pattern) in nodes.ports


def test_a_node_without_its_origin_keeps_its_files_and_gets_no_new_ones(
    ground: Ground, cluster_of: ClusterOf, manager: Manager, names: dict[str, Pattern]
) -> None:
    """It gets new ones again when the origin is back."""
    nodes = cluster_of(2)
    cut, whole = nodes.ports
    origin = xrootd.plain(ground, nodes.data)
    nodes.start(cut, origin_url=origin.url)
    nodes.start(whole)
    with ready(manager) as client:
        before = {path: nodes.read(client, path, pattern) for path, pattern in list(names.items())[:20]}
        assert set(before.values()) == {cut, whole}
        nodes.nodes[cut].settled_metrics()
        origin.stop()
        with nodes.client(cut) as direct:
            # A request shows the node that its origin fails.
            assert direct.try_open("/cluster/not-cached", OPEN_READ).error is not None
        until(lambda: members(nodes.nodes[whole]) == 1, "the other node knows")
        assert set(places(client, new_names("cut")).values()) == {whole}
        assert {path: nodes.read(client, path, names[path]) for path in before} == before
        again = xrootd.plain(ground, nodes.data, port=origin.port)
        try:
            nodes.wait_for_members(2)
        finally:
            again.stop()


def test_a_node_with_a_failed_disk_keeps_its_files_and_gets_no_new_ones(
    ground: Ground, cluster_of: ClusterOf, manager: Manager, names: dict[str, Pattern]
) -> None:
    nodes = cluster_of(2)
    failing, healthy = nodes.ports
    disks = {port: LoopDisk.make(ground, f"disk-{port}") for port in nodes.ports}
    paths = list(names)
    try:
        nodes.stores = {port: disk.path for port, disk in disks.items()}
        nodes.start_all()
        with ready(manager) as client:
            before = {path: nodes.read(client, path, names[path]) for path in paths[:20]}
            assert set(before.values()) == {failing, healthy}
            nodes.nodes[failing].settled_metrics()
            count = list(before.values()).count(failing)
            until(lambda: synced(nodes, failing) == count, "its files are on the disk")
            disks[failing].abort()
            # A write shows the node that its disk fails.
            nodes.read_at(failing, paths[20], names[paths[20]])
            until(lambda: members(nodes.nodes[healthy]) == 1, "the other node knows")
            assert set(places(client, new_names("failed")).values()) == {healthy}
            assert {path: nodes.read(client, path, names[path]) for path in before} == before
    finally:
        nodes.stop()
        for disk in disks.values():
            disk.unmount()


def test_a_node_with_a_full_disk_keeps_its_files_and_gets_new_ones_when_it_has_room(
    ground: Ground, cluster_of: ClusterOf, manager: Manager, names: dict[str, Pattern]
) -> None:
    """Another program fills the disk: clients of its files, and of one that it is asked for, are served."""
    nodes = cluster_of(2)
    full, healthy = nodes.ports
    disks = {port: LoopDisk.make(ground, f"disk-{port}") for port in nodes.ports}
    paths = list(names)
    try:
        nodes.stores = {port: disk.path for port, disk in disks.items()}
        nodes.start_all()
        with ready(manager) as client:
            before = {path: nodes.read(client, path, names[path]) for path in paths[:20]}
            assert set(before.values()) == {full, healthy}
            nodes.nodes[full].settled_metrics()
            # It may purge any that is not open to make room.
            in_use = next(path for path, port in before.items() if port == full)
            with nodes.client(full) as reader:
                handle = reader.open(in_use)
                attempts = iter(enumerate(paths[20:26]))

                def gets_no_new_files() -> bool:
                    number, path = next(attempts)
                    # A write shows the node that its disk is full. After ten seconds it tries again.
                    disks[full].fill()
                    nodes.read_at(full, path, names[path])
                    with contextlib.suppress(TimedOut):
                        until(lambda: members(nodes.nodes[healthy]) == 1, "the other node knows", within=20)
                    is_known = members(nodes.nodes[healthy]) == 1
                    placed = set(places(client, new_names(f"full{number}-")).values())
                    if is_known and members(nodes.nodes[healthy]) == 1:
                        assert placed == {healthy}
                    return placed == {healthy}

                until(gets_no_new_files, "the other node gets all new files", within=120)
                after = {path: nodes.read(client, path, names[path]) for path in before}
                # The purged ones are for the other one now.
                there = {path for path in before if (disks[full].path / path[1:]).exists()}
                kept = {path: port for path, port in before.items() if port == healthy or path in there}
                assert {path: after[path] for path in kept} == kept
                assert kept[in_use] == full
                reader.close_file(handle).ok()
            disks[full].free()
            until(lambda: members(nodes.nodes[healthy]) == 2, "the other node knows that it has room", within=180)
            later = {path: nodes.read(client, path, names[path]) for path in paths[26:]}
            assert set(later.values()) == {full, healthy}
    finally:
        nodes.stop()
        for disk in disks.values():
            disk.unmount()
