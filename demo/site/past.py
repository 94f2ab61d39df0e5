"""Makes the past of a month out of a replay of minutes: times are stretched, all else stays as the cache counted it."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import crc32c

from .month import DAY_S
from .replay import HOUR_S, MINUTE_S, SAMPLE_S, Replay, Samples

# The form of `.forebay/history`: rings of an hour, a day and ninety days, with points of twelve values.
MAGIC = b"FBYHIST1"
POINT = "<QI12f"
RINGS = ((SAMPLE_S, HOUR_S), (MINUTE_S, DAY_S), (HOUR_S, 90 * DAY_S))
SPOOL_FILE_BYTES = 1 << 20
# Metrics of which Prometheus gets a past.
PAST_OF = ("forebay_client_bytes", "forebay_origin_bytes", "forebay_files_read", "forebay_cache_used", "forebay_group")


def history(replay: Replay, offset: float) -> bytes:
    """The history of the status page. `offset` is the begin of the month in seconds of the Unix epoch."""
    content = MAGIC
    for step, length in RINGS:
        points = list(ring(replay, offset, step, length))
        content += struct.pack("<I", len(points))
        content += b"".join(struct.pack(POINT, at, step // SAMPLE_S, *values) for at, values in points)
    return content + struct.pack("<I", crc32c.crc32c(content))


def ring(replay: Replay, offset: float, step: int, length: int) -> Iterator[tuple[int, list[float]]]:
    """The points of a range of the history: the last `length` seconds in steps of `step`."""
    begin = max(replay.generated[-1] - length, 0)
    before = None
    for at, samples in zip(replay.generated, replay.samples, strict=True):
        if at < begin or at % step:
            continue
        if before:
            yield point(replay, before, (at, samples), offset)
        before = at, samples


def point(
    replay: Replay, before: tuple[float, Samples], after: tuple[float, Samples], offset: float
) -> tuple[int, list[float]]:
    """The begin of a step, and the values of the history's series in it."""
    seconds = after[0] - before[0]
    of_purges = "forebay_purged_bytes_total"

    def rate(name: str, *parts: str) -> float:
        return (total(after[1], name, *parts) - total(before[1], name, *parts)) / seconds

    age = total(after[1], "forebay_eviction_age_seconds") * replay.stretch()
    values = [
        rate("forebay_client_bytes_total"),
        rate("forebay_client_bytes_total", 'outcome="hit"'),
        rate("forebay_origin_bytes_total"),
        rate("forebay_files_read_total", 'result="hit"', 'result="partial"', 'result="missed"'),
        rate("forebay_files_read_total", 'result="hit"'),
        rate("forebay_client_errors_total"),
        rate(of_purges),
        total(after[1], "forebay_cache_used_bytes"),
        age,
        total(after[1], "forebay_open_handles"),
        total(after[1], "forebay_connections"),
        total(after[1], "forebay_budget_used_bytes"),
    ]
    at = int(offset + before[0])
    return at - at % int(seconds), values


def total(samples: Samples, name: str, *parts: str) -> float:
    """The sum of a metric, over all labels or those with one of the parts."""
    return sum(
        value
        for (found, labels), value in samples.items()
        if found == name and (not parts or any(part in labels for part in parts))
    )


def open_metrics(replay: Replay, offset: float, labels: str) -> Iterator[str]:
    """The counters of each hour as text for `promtool tsdb create-blocks-from openmetrics`."""
    for at, samples in zip(replay.generated, replay.samples, strict=True):
        if at % HOUR_S:
            continue
        for (name, own), value in samples.items():
            if name.startswith(PAST_OF):
                yield f"{name}{{{own}{',' if own else ''}{labels}}} {value} {offset + at:.3f}\n"
    yield "# EOF\n"


def records(replay: Replay, offset: float, directory: Path) -> list[str]:
    """The records of the replay as lines, with the times of the month."""
    found: list[dict[str, Any]] = []
    for path in sorted(directory.glob("records-*.jsonl")):
        found += [json.loads(line) for line in path.read_text().splitlines()]
    last_use: dict[str, float] = {}
    for record in sorted(found, key=lambda record: int(record["end_time"])):
        end = offset + replay.generated_at(record["end_time"] / 1000)
        before = last_use.get(record["file_lfn"])
        if "since_last_use_s" in record and before is not None:
            record["since_last_use_s"] = int(end - before)
        last_use[record["file_lfn"]] = end
        record["start_time"] = int((end - record["operation_time"]) * 1000)
        record["end_time"] = record["@timestamp"] = int(end * 1000)
    return [json.dumps(record, separators=(",", ":")) + "\n" for record in found]


def write_spool(lines: list[str], directory: Path) -> None:
    """Writes records as those that wait for OpenSearch: the cache sends them at its start."""
    directory.mkdir(parents=True)
    number, waiting, size = 0, list[str](), 0
    for line in [*lines, ""]:
        if waiting and (not line or size + len(line) > SPOOL_FILE_BYTES):
            number += 1
            (directory / f"spool-{number:012}.jsonl").write_text("".join(waiting))
            waiting, size = [], 0
        waiting.append(line)
        size += len(line)
