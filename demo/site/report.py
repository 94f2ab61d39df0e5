"""The output of the demo, and the checks that end it with an error."""

from __future__ import annotations

import shlex
from pathlib import Path

from ..servers import Server, ServerError
from .month import SHRINK
from .past import total
from .replay import Replay
from .services import Prometheus, Search, get

# Bytes sent in a day, by outcome, over the month.
GRAPH = "sum(increase(forebay_client_bytes_total%5B1d%5D))by(outcome)&g0.tab=0&g0.range_input=30d"


def say(line: str) -> None:
    """Prints at once, also into a file."""
    print(line, flush=True)


def table(
    replayed: Replay, offset: float, cache: Server, prometheus: Prometheus, search: Search, stream: str, records: int
) -> None:
    """Prints what was read, and checks that page, Prometheus and OpenSearch have it."""
    last = replayed.samples[-1]
    read = total(last, "forebay_client_bytes_total") - total(replayed.begin, "forebay_client_bytes_total")
    hit = total(last, "forebay_client_bytes_total", 'outcome="hit"')
    fetched = total(last, "forebay_origin_bytes_total")
    files = total(last, "forebay_files_read_total")
    expect("records", records, files)
    say(f"{files:.0f} files closed; {read / 1e6:.0f} MB read, {hit / read:.0%} hits")
    say(f"{fetched / 1e6:.0f} MB from the origin")
    points = get(f"{cache.admin_url}/history.json?range=quarter")["points"]
    hours = int((replayed.generated[-1] - replayed.generated[0]) / 3600)
    if len(points) < hours:
        raise ServerError(f"the status page has {len(points)} hours of {hours}")
    # The last value before the end, of the series of the replay.
    query = f"sum(last_over_time(forebay_client_bytes_total[2h] @ {offset + replayed.generated[-1] - 1:.3f}))"
    found = prometheus.ask(query)
    before_last = [s for at, s in zip(replayed.generated, replayed.samples, strict=True) if at % 3600 == 0][-2]
    wanted = total(before_last, "forebay_client_bytes_total")
    expect("bytes in Prometheus", float(found[0]["value"][1]) if found else 0, wanted)
    tiers = search.by_tier(stream)
    say(f"status page: {len(points)} hours of history\nPrometheus:  the same hours")
    say(f"OpenSearch:  {search.documents(stream)} records, by data tier:")
    for tier, size in sorted(tiers.items(), key=lambda item: -item[1]):
        say(f"  {tier:<16}{size / 1e6:>10.0f} MB")


def expect(name: str, found: float, wanted: float) -> None:
    """Ends the demo if two counts of the same differ."""
    if found != wanted:
        raise ServerError(f"{name}: {found:.0f}, but the cache has counted {wanted:.0f}")


def commands(binary: Path, cache: Server, directory: Path, budget: int) -> str:
    """Commands to try, which can be pasted as printed."""
    program, directory = shlex.quote(str(binary.resolve())), directory.resolve()
    records, token = (shlex.quote(str(directory / name)) for name in ("records", "token"))
    megabytes = budget // 10**6
    return "\n".join(
        [
            f"  {program} top --admin {cache.admin_url} --token-file {token}",
            f"  {program} sizing --admin {cache.admin_url} --token-file {token}",
            # The last line may be incomplete, while the cache writes it.
            f"  {program} simulate {records} --skip-bad --size {megabytes}MB --add {megabytes // 2}MB",
        ]
    )


def addresses(
    days: int, cache: Server, prometheus: Prometheus, search: Search, stream: str, token: str, commands: str
) -> None:
    """Prints where to look."""
    say(f"""
Times before the start of this demo are generated: {days} days were replayed in seconds, and what the cache counted was
spread over these days. Sizes are 1/{SHRINK} of those generated. From now on everything is live; a job reads every 30 s.

Status page  {cache.admin_url}/    (log in with the token {token})
Prometheus   {prometheus.url}/graph?g0.expr={GRAPH}
OpenSearch   {search.url}/{stream}/_search?size=1&pretty

{commands}

Press Ctrl-C to stop all servers.""")
