"""Simulates a cache with libCacheSim. Prints the hits by policy, by count and by bytes, as JSON."""

from __future__ import annotations

import csv
import json
import sys

import libcachesim

# Bytes of an entry's record, in addition to its data.
RECORD_BYTES = 4096

POLICIES = {"lru": libcachesim.LRU, "s3-fifo": libcachesim.S3FIFO, "gdsf": libcachesim.GDSF}


def main(path: str, capacity: int) -> None:
    """Replays a CSV of accesses to whole files through each policy."""
    with open(path, encoding="utf-8", newline="") as lines:
        rows = [(row["path"], int(row["size"])) for row in csv.DictReader(lines)]
    numbers: dict[str, int] = {}
    requests = [(numbers.setdefault(name, len(numbers) + 1), size) for name, size in rows]
    results = {}
    for policy, build in POLICIES.items():
        cache = build(capacity)
        hits = bytes_hit = 0
        for number, size in requests:
            if cache.get(libcachesim.Request(obj_id=number, obj_size=size + RECORD_BYTES)):
                hits += 1
                bytes_hit += size
        results[policy] = [hits, bytes_hit]
    print(json.dumps(results))


main(sys.argv[1], int(sys.argv[2]))
