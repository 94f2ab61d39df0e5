"""The tables of `forebay root-layout` are those that uproot finds, for files of uproot and of ROOT."""

from __future__ import annotations

import json
from bisect import bisect_right
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from harness import forebay, xrootd
from harness.clients import DRIVERS, run_client
from harness.ground import Ground, root_python
from harness.root_files import Sums

Item = tuple[int, int, int, str]
CODECS = {"zlib": 101, "lzma": 201, "lz4": 404, "zstd": 505, "none": 0}


def layout_of(ground: Ground, file: str | Path) -> dict[str, Any]:
    """The printed structure."""
    result = forebay.run(ground, "root-layout", str(file), "--items", "--json")
    assert result.returncode == 0, result.stderr
    layout: dict[str, Any] = json.loads(result.stdout)
    return layout


def items_of(tree: dict[str, Any]) -> list[Item]:
    """Offset, bytes, cluster and column of each item."""
    names = [column["name"] for column in tree["columns"]]
    return [(offset, length, cluster, names[column]) for offset, length, cluster, column in tree["items"]]


def baskets(tree: uproot.TTree) -> list[Item]:
    """The same, by uproot, with the clusters of uproot's common offsets."""
    branches = dict(tree.iteritems(recursive=True, full_paths=True))
    largest = max(branches.values(), key=lambda branch: sum(branch.member("fBasketBytes")[: branch.num_baskets]))
    bounds: list[int] = []
    first = 0
    for last, size in zip(tree.member("fClusterRangeEnd"), tree.member("fClusterSize"), strict=True):
        bounds += range(first, last + 1, size)
        first = last + 1
    if (flush := tree.member("fAutoFlush")) > 0:
        bounds += range(first, tree.num_entries, flush)
    elif not bounds:
        bounds = list(largest.member("fBasketEntry")[: largest.num_baskets])
    found = []
    for name, branch in branches.items():
        for offset, length, entry in zip(
            branch.member("fBasketSeek")[: branch.member("fWriteBasket")],
            branch.member("fBasketBytes"),
            branch.member("fBasketEntry"),
            strict=False,
        ):
            if offset:
                found.append((int(offset), int(length), bisect_right(bounds, entry) - 1, name))
    return sorted(found)


def pages(ntuple: uproot.behaviors.RNTuple.RNTuple) -> list[tuple[int, int, int]]:
    """Offset, bytes and cluster of each page of an RNTuple by uproot, once for each offset."""
    found: dict[int, tuple[int, int]] = {}
    for cluster, columns in enumerate(ntuple.page_link_list):
        for column in columns:
            for page in column.pages:
                length = page.locator.num_bytes + (8 if page.has_checksum else 0)
                if length:
                    found.setdefault(page.locator.offset, (length, cluster))
    return sorted((offset, length, cluster) for offset, (length, cluster) in found.items())


def assert_equal_ntuple(tree: dict[str, Any], ntuple: uproot.behaviors.RNTuple.RNTuple) -> None:
    """Pages are equal, and the columns belong to the same fields."""
    assert (tree["kind"], tree["entries"]) == ("RNTuple", ntuple.num_entries)
    assert tree["clusters"] == len(ntuple.cluster_summaries)
    assert [item[:3] for item in items_of(tree)] == pages(ntuple)
    fields = [ntuple.field_records[column.field_id].field_name for column in ntuple.column_records]
    columns = [column["name"].rpartition("#")[0].rpartition(".")[2] for column in tree["columns"]]
    assert columns == fields


def test_a_tree_of_uproot_at_a_server(
    ground: Ground, plain_origin: xrootd.Origin, data: Path, tree_path: str, tree_sums: Sums
) -> None:
    local = data / tree_path[1:]
    layout = layout_of(ground, f"{plain_origin.url}/{tree_path}")
    assert layout["outcome"] == "parsed"
    assert layout == layout_of(ground, local)
    [tree] = layout["trees"]
    assert (tree["name"], tree["kind"], tree["entries"]) == ("Events", "TTree", tree_sums.entries)
    with uproot.open(local) as file:
        assert items_of(tree) == baskets(file["Events"])
    assert layout["read_bytes"] < local.stat().st_size / 4


@pytest.mark.parametrize("codec", CODECS)
def test_trees_of_root(ground: Ground, codec: str) -> None:
    path = ground.directory("layout") / f"{codec}.root"
    result = run_client([root_python(), DRIVERS / "pyroot_write.py", path, str(CODECS[codec])])
    assert result.returncode == 0, result.stderr.decode(errors="replace")[-3000:]
    layout = layout_of(ground, path)
    assert (layout["outcome"], layout["refused"]) == ("parsed", [])
    trees = {tree["name"]: tree for tree in layout["trees"]}
    with uproot.open(path) as file:
        for name in ("Events", "dir/Objects", "dir/Numbers"):
            tree = file[name]
            assert (trees[name]["kind"], trees[name]["entries"]) == ("TTree", tree.num_entries)
            assert items_of(trees[name]) == baskets(tree)
            assert trees[name]["items"]
        assert file["Events"].member("fNClusterRange") == 1
        assert_equal_ntuple(trees["Ntuple"], file["Ntuple"])
    assert len(trees) == 4


def test_an_ntuple_of_uproot(ground: Ground) -> None:
    path = ground.directory("layout") / "ntuple.root"
    random = np.random.default_rng(5)
    with uproot.recreate(path) as file:
        ntuple = None
        for _ in range(4):
            counts = random.integers(0, 6, 2000)
            jets = ak.unflatten(random.normal(size=int(counts.sum())), counts)
            values = {"x": random.normal(size=2000), "jets": jets, "tag": np.full(2000, 7)}
            if ntuple is None:
                ntuple = file.mkrntuple("Events", values)
            else:
                ntuple.extend(values)
    layout = layout_of(ground, path)
    assert layout["outcome"] == "parsed"
    with uproot.open(path) as file:
        assert_equal_ntuple(layout["trees"][0], file["Events"])


def test_files_without_structure_have_an_outcome(ground: Ground, data: Path, tree_path: str, tree_sums: Sums) -> None:
    folder = ground.directory("layout")
    whole = (data / tree_path[1:]).read_bytes()
    for name, contents, outcome in (
        ("empty", b"", "none"),
        ("other", b"%PDF-1.7 and more", "none"),
        ("truncated", whole[: len(whole) // 2], "damaged"),
    ):
        (folder / name).write_bytes(contents)
        assert layout_of(ground, folder / name)["outcome"] == outcome, name
    text = forebay.run(ground, "root-layout", str(data / tree_path[1:]))
    assert "outcome   parsed" in text.stdout
    assert f"TTree Events: {tree_sums.entries} entries" in text.stdout
    assert "  pt\n" in text.stdout
    missing = forebay.run(ground, "root-layout", str(folder / "missing"))
    assert missing.returncode != 0
    assert "missing" in missing.stderr
