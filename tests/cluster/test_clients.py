"""Clients of experiments through the redirector, and the form with a stock `cmsd` on the node."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import cluster, xrootd
from harness.clients import DRIVERS, FETCHERS, run_client
from harness.cluster import Cluster, Manager, ready
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground, program, root_python
from harness.root_files import Sums
from harness.waiting import until
from harness.xrootd import Origin, Release


def xrdfs(server: str, *arguments: str) -> str:
    """The output of a command of `xrdfs`."""
    result = run_client([program("xrdfs"), server, *arguments])
    assert result.returncode == 0, result.stderr.decode(errors="replace")
    return result.stdout.decode()


def test_xrdfs_finds_lists_and_stats_through_the_redirector(
    cluster_of: Callable[[int], Cluster], manager: Manager, names: dict[str, Pattern]
) -> None:
    nodes = cluster_of(2)
    nodes.start_all()
    path, pattern = next(iter(names.items()))
    with ready(manager) as client:
        port = nodes.read(client, path, pattern)
    server = f"127.0.0.1:{manager.port}"
    # The node announces the file to the manager once it is in the index.
    until(lambda: f":{port} Server Read" in xrdfs(server, "locate", path), "the manager knows where it is")
    assert f"Size:   {pattern.size}" in xrdfs(server, "stat", path)
    listed = {line.rsplit("/", 1)[1] for line in xrdfs(server, "ls", path.rsplit("/", 1)[0]).split()}
    assert listed == {name.rsplit("/", 1)[1] for name in names if name.startswith(path.rsplit("/", 1)[0] + "/")}
    missing = run_client([program("xrdfs"), server, "stat", "/cluster/missing"])
    assert b"[3011]" in missing.stderr


@pytest.mark.parametrize("reader", ["uproot", "pyroot"])
def test_analyses_read_through_the_redirector(
    reader: str, cluster_of: Callable[[int], Cluster], manager: Manager, tree_path: str, tree_sums: Sums
) -> None:
    nodes = cluster_of(2)
    nodes.start_all()
    ready(manager).close()
    python: str | Path = root_python() if reader == "pyroot" else sys.executable
    result = run_client([python, DRIVERS / f"{reader}_sum.py", f"{manager.url}/{tree_path}"])
    assert result.returncode == 0, result.stderr.decode(errors="replace")[-3000:]
    assert Sums.from_json(result.stdout.decode().strip().splitlines()[-1]).agrees_with(tree_sums)
    assert nodes.origin_bytes() > 0


def test_a_stock_cmsd_answers_for_a_cache_beside_it(
    ground: Ground,
    plain_origin: Origin,
    cache_of: Callable[..., Forebay],
    names: dict[str, Pattern],
    release: Release,
) -> None:
    """It stats the files of the store, and the manager chooses the node for files that no node has."""
    # It never answers for such files.
    manager = cluster.manager(ground, hold_ms=178, release=release)
    cache = cache_of(plain_origin.url, port=ground.free_port())
    assert cache.store is not None
    beside = xrootd.cmsd_beside(ground, cache.port, cache.store, manager.node_port, release)
    try:
        until(lambda: manager.logins(cache.port) == 1, "the node is logged in")
        path, pattern = next(iter(names.items()))
        target = ground.directory("copies") / "copy"
        for _ in range(2):
            result = FETCHERS["xrdcp"](ground, f"{manager.url}/{path}", target, {})
            assert result.returncode == 0, result.stderr
            assert_same(target.read_bytes(), pattern.all(), path)
        assert cache.settled_metrics().origin_bytes == pattern.size
        located = xrdfs(f"127.0.0.1:{manager.port}", "locate", path)
        assert f":{cache.port} Server" in located
    finally:
        beside.stop()
        manager.stop()
