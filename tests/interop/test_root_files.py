"""Analyses: a TTree read by uproot and by ROOT through the cache adds up to the same sums as the file itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import xrootd
from harness.clients import DRIVERS, run_client
from harness.forebay import Forebay
from harness.ground import root_python
from harness.root_files import Sums


def read_tree(reader: str, url: str) -> Sums:
    """Runs an event loop in a process of its own."""
    python: str | Path = root_python() if reader == "pyroot" else sys.executable
    result = run_client([python, DRIVERS / f"{reader}_sum.py", url])
    assert result.returncode == 0, result.stderr.decode(errors="replace")[-3000:]
    return Sums.from_json(result.stdout.decode().strip().splitlines()[-1])


@pytest.mark.parametrize("reader", ["uproot", "pyroot"])
def test_tree_sums_agree_cold_and_warm(
    reader: str,
    any_origin: xrootd.Origin | Forebay,
    cache_of: Callable[..., Forebay],
    tree_path: str,
    tree_sums: Sums,
) -> None:
    cache = cache_of(any_origin.url)
    assert read_tree(reader, cache.file_url(tree_path)).agrees_with(tree_sums)
    cold = cache.settled_metrics().origin_bytes
    assert cold > 0
    assert read_tree(reader, cache.file_url(tree_path)).agrees_with(tree_sums)
    assert cache.metrics().origin_bytes == cold
