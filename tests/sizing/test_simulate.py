"""Simulations give the hit ratios of an independent simulator, and refuse bad records with their place."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from harness import forebay
from harness.clients import run_client
from harness.ground import Ground, libcachesim_python

DRIVER = Path(__file__).parents[1] / "harness" / "drivers" / "libcachesim_hits.py"

FILES, ACCESSES, ZIPF = 20_000, 200_000, 0.9
UNIT = 4096

# Evicts one by one, as libCacheSim does.
CONFIGURATION = """
[store]
path = "/var/cache/forebay"
[[export]]
path = "/"
origins = ["root://origin.example.org"]
[purge]
high = "100%"
low = "100%"
"""


def write_trace(path: Path) -> int:
    """Accesses to whole files of log-normal sizes, by a Zipf law; returns the bytes of all files."""
    chance = random.Random(7)
    sizes = [UNIT * max(1, round(chance.lognormvariate(math.log(400), 1.0))) for _ in range(FILES)]
    weights = [1 / (rank + 1) ** ZIPF for rank in range(FILES)]
    picks = chance.choices(range(FILES), weights, k=ACCESSES)
    rows = (f"{1_700_000_000 + 10 * n},/f{pick},{sizes[pick]}\n" for n, pick in enumerate(picks))
    path.write_text("time,path,size\n" + "".join(rows))
    return sum(sizes)


def simulate(ground: Ground, *arguments: str) -> dict[str, Any]:
    """The report of a simulation."""
    result = forebay.run(ground, "simulate", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def test_hit_ratios_are_those_of_libcachesim(ground: Ground) -> None:
    folder = ground.directory("simulate")
    trace, configuration = folder / "trace.csv", folder / "forebay.toml"
    total = write_trace(trace)
    configuration.write_text(CONFIGURATION)
    sizes = [total // 20, total // 5]
    arguments = ["--config", str(configuration), "--unit", "file", "--warm-up", "0", "--policies", "lru,s3-fifo,gdsf"]
    report = simulate(ground, str(trace), *arguments, "--sizes", ",".join(map(str, sizes)))
    read = report["records"]["read_bytes"]
    for size in sizes:
        other = run_client([libcachesim_python(), str(DRIVER), str(trace), str(size)])
        expected = json.loads(other.stdout)
        for cache in (cache for cache in report["caches"] if cache["size"] == size):
            hits, hit_bytes = expected[cache["policy"]]
            files, byte_ratio = 100 * hits / ACCESSES, 100 * hit_bytes / read
            points = 1e-6 if cache["policy"] == "lru" else 0.5
            assert cache["hits_by_files"]["percent"] == pytest.approx(files, abs=points), cache
            assert cache["hits_by_bytes"]["percent"] == pytest.approx(byte_ratio, abs=points), cache


def test_a_bad_record_is_named_and_may_be_left_out(ground: Ground) -> None:
    path = ground.directory("bad") / "records.csv"
    path.write_text("time,path,size\n1,/a,5\nyesterday,/a,5\n3,/a,5\n")
    refused = forebay.run(ground, "simulate", str(path), "--sizes", "1TB")
    assert refused.returncode == 1
    assert f"{path}, line 3: time is" in refused.stderr
    assert "write seconds of the Unix epoch" in refused.stderr
    assert "--skip-bad" in refused.stderr
    report = simulate(ground, str(path), "--sizes", "1TB", "--skip-bad")
    assert (report["records"]["accesses"], report["bad_records"]) == (2, 1)
    empty = forebay.run(ground, "simulate", str(path.parent / "records.csv.missing"))
    assert empty.returncode == 1
    assert "records.csv.missing" in empty.stderr
