"""A simulation with the requests of a trace, by blocks, gives the counters of the server that wrote it."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import forebay
from harness.admin import Site
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK
from harness.ground import Ground
from harness.raw_client import RawClient, vector_elements
from harness.scripted import ScriptedOrigin
from harness.waiting import until

FILES = {f"/set/{name}": Pattern(24 * BLOCK - 1000 * number, number) for number, name in enumerate("abcdef")}
BUDGET = 40 * BLOCK
HIGH = BUDGET * 9 // 10
# Which files are opened, one after the other: `a` comes back before and after a purge.
OPENS = "abcadebf"
READS = 8


@pytest.fixture
def traced(ground: Ground) -> Iterator[tuple[Site, Path]]:
    """A small cache without read-ahead, with a trace, before an origin."""
    folder = ground.directory("store") / "trace"
    with ScriptedOrigin(dict(FILES)) as origin:
        configuration = {
            "export": [{"origins": [origin.url]}],
            "trace": {"path": str(folder)},
            "read_ahead": {"enabled": False},
            "purge": {"budget": str(BUDGET), "high": "90%", "low": "60%"},
        }
        with Site(ground, configuration) as running:
            yield running, folder


def settle(site: Site) -> None:
    """Waits until everything fetched is on the disk, and a purge that is due is over."""
    site.server.settled_metrics()
    until(lambda: site.server.metrics().total("forebay_cache_used_bytes") <= HIGH, "the purge ends")


def ranges_of(number: int, chance: random.Random) -> list[list[tuple[int, int]]]:
    """The requests of a job: each reads one block at most that no request of it has read before.

    A purge that is due is then about the same bytes, whenever it begins. Before the first one, all sizes are fine.
    """
    blocks = chance.sample(range(23), READS)
    requests: list[list[tuple[int, int]]] = []
    for block in blocks:
        again = chance.choice(chance.choice(requests)) if requests else (0, 100)
        if number < 2:
            requests.append([(BLOCK * block + chance.randrange(BLOCK), chance.randint(1, BLOCK)), again])
        else:
            # Whole blocks: the rest of others is not always fetched while purges make room.
            requests.append([(BLOCK * block, BLOCK)])
            requests.append([again if requests[1:] else (BLOCK * block, 100)])
    return requests


def job(site: Site, client: RawClient, number: int, chance: random.Random) -> None:
    """Reads parts of a file, some of them again, by single reads and by vectors."""
    path = f"/set/{OPENS[number]}"
    handle, content = client.open(path), FILES[path]
    for request in ranges_of(number, chance):
        if len(request) == 1:
            ((offset, length),) = request
            assert_same(client.read(handle, offset, length).ok(), content.read(offset, length), path)
        else:
            answer = client.read_vector([(handle, *element) for element in request])
            for (_, data), element in zip(vector_elements(answer.ok()), request, strict=True):
                assert_same(data, content.read(*element), path)
        # Bytes that are on their way count as coalesced.
        settle(site)
    client.close_file(handle).ok()
    # The record of an entry has the second of its last use, by which purges order entries.
    closed = int(time.time())
    until(lambda: int(time.time()) > closed, "the next second begins")

    def all_can_be_purged() -> bool:
        files = site.get("/status")["usage"]["files"]
        return site.command("purge", "--to", "0%", "--dry-run").stdout.startswith(f"{files} files, ")

    # A purge passes over files that are not synced yet.
    until(all_can_be_purged, "the files are synced")


def test_a_simulation_by_blocks_gives_the_counters_of_the_server(ground: Ground, traced: tuple[Site, Path]) -> None:
    site, folder = traced
    chance = random.Random(4)
    with site.server.client() as client:
        for number in range(len(OPENS)):
            job(site, client, number, chance)

    def closes() -> int:
        return sum(path.read_text().count('"e":"close"') for path in folder.glob("*.jsonl"))

    until(lambda: closes() == len(OPENS), "the reads are traced")
    arguments = ["--config", str(site.configuration), "--unit", "block", "--warm-up", "0", "--json"]
    result = forebay.run(ground, "simulate", str(folder), *arguments, "--sizes", str(BUDGET))
    assert result.returncode == 0, result.stderr
    cache = json.loads(result.stdout)["caches"][0]
    purged = "forebay_purged_files_total"
    # The last purge may still remove files.
    until(lambda: site.server.metrics().total(purged) >= cache["purged_files"], "the last purge ends")
    metrics = site.server.metrics()
    client_bytes = metrics.client_bytes()
    assert client_bytes["coalesced"] == client_bytes["bypassed"] == 0
    assert client_bytes["hit"] > 0
    assert (cache["hit_bytes"], cache["missed_bytes"]) == (client_bytes["hit"], client_bytes["missed"])
    assert cache["origin_bytes"] == metrics.total("forebay_disk_written_bytes_total") == metrics.origin_bytes
    assert cache["purged_bytes"] == metrics.total("forebay_purged_bytes_total", reason="space")
    assert cache["purged_files"] == metrics.total(purged, reason="space") > 1
