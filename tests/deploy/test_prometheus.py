"""Rules for Prometheus, and the dashboard's queries, with a real Prometheus."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import clients, xrootd
from harness.forebay import BUDGET, Forebay
from harness.ground import REPOSITORY, Ground
from harness.metrics import Metrics
from harness.process import Process
from harness.waiting import TimedOut, until

RULES = REPOSITORY / "deploy" / "prometheus"
PATH = "/sizes/many-blocks.bin"
FILES_READ = "forebay_files_read_total"
# The first read misses, the others hit, unless the disk is so slow that a block is not kept.
READS_MAX = 6
# A cache without purges and certificates has no values of these.
ABSENT = ("forebay_eviction_age_seconds", "forebay_certificate_expiry_seconds")
FLAT, GROWING, STEADY, ZERO = "0+0x3000", "0+5x3000", "1+0x3000", "0x3000"

# When alerts are looked at: after their time of waiting, and for the ratio after more than a day.
SOON, LATE = "2h30m", "30h"

# For each alert: series with which it fires, and with which it does not.
Series = dict[str, str]
CASES: dict[str, tuple[Series, Series]] = {
    "ForebayDown": ({'up{job="forebay"}': ZERO}, {'up{job="forebay"}': STEADY}),
    "ForebayNotReady": ({"forebay_ready": ZERO}, {"forebay_ready": STEADY}),
    "ForebayDiskUnhealthy": (
        {'forebay_disk_state{state="offline"}': STEADY},
        {'forebay_disk_state{state="offline"}': ZERO, 'forebay_disk_state{state="healthy"}': STEADY},
    ),
    "ForebayDiskErrors": ({"forebay_disk_errors_total": GROWING}, {"forebay_disk_errors_total": FLAT}),
    "ForebayDamagedBlocks": (
        {'forebay_block_checks_total{result="damaged"}': GROWING},
        {'forebay_block_checks_total{result="intact"}': GROWING},
    ),
    "ForebayDiskFull": (
        {'forebay_not_kept_total{reason="disk_full"}': GROWING},
        {'forebay_not_kept_total{reason="link"}': GROWING},
    ),
    "ForebayPurgeUnmet": ({"forebay_purges_unmet_total": GROWING}, {"forebay_purges_unmet_total": FLAT}),
    "ForebayOriginErrors": (
        {'forebay_origin_errors_total{origin="o"}': "0+1x3000", 'forebay_origin_requests_total{origin="o"}': GROWING},
        {
            'forebay_origin_errors_total{origin="o"}': "0+1x3000",
            'forebay_origin_requests_total{origin="o"}': "0+99x3000",
        },
    ),
    "ForebayOriginsFailing": ({"forebay_origins_failing": STEADY}, {"forebay_origins_failing": ZERO}),
    "ForebayChecksumDisputed": (
        {'forebay_checksum_comparisons_total{result="disputed"}': GROWING},
        {'forebay_checksum_comparisons_total{result="equal"}': GROWING},
    ),
    "ForebayConnectionsRefused": (
        {"forebay_connections_refused_total": GROWING},
        {"forebay_connections_refused_total": FLAT},
    ),
    "ForebayMemoryUsedUp": (
        {"forebay_budget_used_bytes": "96x3000", "forebay_budget_bytes": "100x3000"},
        {"forebay_budget_used_bytes": "90x3000", "forebay_budget_bytes": "100x3000"},
    ),
    # Hits only for four hours, then only misses for more than a day.
    "ForebayHitRatioFell": (
        {
            'forebay_client_bytes_total{outcome="hit"}': "0+100x240 24000+0x1700",
            'forebay_client_bytes_total{outcome="missed"}': "0+0x240 0+100x1700",
        },
        {
            'forebay_client_bytes_total{outcome="hit"}': "0+100x3000",
            'forebay_client_bytes_total{outcome="missed"}': "0+100x3000",
        },
    ),
    "ForebayReadAheadWasted": (
        {
            'forebay_read_ahead_bytes_total{event="wasted"}': "0+50x3000",
            'forebay_read_ahead_bytes_total{event="fetched"}': "0+100x3000",
        },
        {
            'forebay_read_ahead_bytes_total{event="wasted"}': "0+30x3000",
            'forebay_read_ahead_bytes_total{event="fetched"}': "0+100x3000",
        },
    ),
    "ForebayEvictionAgeShort": (
        {"forebay_eviction_age_seconds": "3600x3000"},
        {"forebay_eviction_age_seconds": "90000x3000"},
    ),
    "ForebayCertificateExpires": (
        {'forebay_certificate_expiry_seconds{file="f",kind="certificate"}': "86400x3000"},
        {
            'forebay_certificate_expiry_seconds{file="f",kind="certificate"}': "5184000x3000",
            'forebay_certificate_expiry_seconds{file="p",kind="proxy"}': "600x3000",
        },
    ),
    "ForebayProxyExpires": (
        {'forebay_certificate_expiry_seconds{file="p",kind="proxy"}': "600x3000"},
        {
            'forebay_certificate_expiry_seconds{file="f",kind="certificate"}': "600x3000",
            'forebay_certificate_expiry_seconds{file="p",kind="proxy"}': "7200x3000",
        },
    ),
    "ForebayIndexErrors": ({"forebay_index_errors_total": GROWING}, {"forebay_index_errors_total": FLAT}),
    "ForebayRecordsDropped": ({"forebay_records_dropped_total": GROWING}, {"forebay_records_dropped_total": FLAT}),
    "ForebayTraceDropped": ({"forebay_trace_dropped_total": GROWING}, {"forebay_trace_dropped_total": FLAT}),
}


def alerts() -> list[dict[str, Any]]:
    """The rules that are shipped."""
    document = yaml.safe_load((RULES / "alerts.yml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def promtool(*arguments: str, directory: Path = RULES) -> None:
    """Runs the checker of Prometheus, which must be content."""
    done = subprocess.run(["promtool", *arguments], cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def with_instance(series: str) -> str:
    """The name of a series of one cache."""
    name, _, labels = series.partition("{")
    return f'{name}{{instance="cache",{labels or "}"}'


def test_the_files_are_what_prometheus_reads() -> None:
    promtool("check", "rules", "recording.yml", "alerts.yml")
    promtool("check", "config", "scrape.yml")


def test_each_alert_fires_and_does_not_fire_without_a_reason(ground: Ground) -> None:
    assert sorted(rule["alert"] for rule in alerts()) == sorted(CASES)
    tests = []
    for alert, both in CASES.items():
        for fires, series in zip((True, False), both, strict=True):
            sample = [{"labels": "{}", "value": 1}] if fires else []
            expression = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'
            tests.append(
                {
                    "interval": "1m",
                    "name": f"{alert} {'fires' if fires else 'does not fire'}",
                    "input_series": [{"series": with_instance(name), "values": it} for name, it in series.items()],
                    "promql_expr_test": [
                        {
                            "expr": expression,
                            "eval_time": LATE if alert == "ForebayHitRatioFell" else SOON,
                            "exp_samples": sample,
                        }
                    ],
                }
            )
    directory = ground.directory("alerts")
    document = {"rule_files": [str(RULES / "recording.yml"), str(RULES / "alerts.yml")], "tests": tests}
    (directory / "tests.yml").write_text(yaml.safe_dump(document))
    promtool("test", "rules", "tests.yml", directory=directory)


def test_imbalance_is_the_part_of_the_bytes_by_the_part_of_the_weights(ground: Ground) -> None:
    """A cache that is not in a cluster does not count."""
    values = {"a": (300, 100), "b": (100, 300), "alone": (1000, 0)}
    series = [
        {"series": f'{name}{{instance="{instance}",job="forebay"}}', "values": f"{value}x10"}
        for instance, pair in values.items()
        for name, value in zip(("forebay_cache_used_bytes", "forebay_cluster_weight"), pair, strict=True)
    ]
    rule = "instance:forebay_cluster_imbalance:ratio"
    expected = [
        {"labels": f'{rule}{{instance="{instance}"}}', "value": value} for instance, value in (("a", 3), ("b", 1 / 3))
    ]
    test = {"interval": "1m", "input_series": series}
    test["promql_expr_test"] = [{"expr": rule, "eval_time": "5m", "exp_samples": expected}]
    directory = ground.directory("imbalance")
    document = {"rule_files": [str(RULES / "recording.yml")], "tests": [test]}
    (directory / "tests.yml").write_text(yaml.safe_dump(document))
    promtool("test", "rules", "tests.yml", directory=directory)


def test_duplicates_are_the_part_of_the_bytes_of_a_cluster(ground: Ground) -> None:
    """A cache that is not in a cluster does not count."""
    values = {"a": (300, 100, 8), "b": (100, 100, 0), "alone": (1000, 0, 0)}
    metrics = ("forebay_cache_used_bytes", "forebay_cluster_weight", "forebay_cluster_duplicate_bytes")
    series = [
        {"series": f'{name}{{instance="{instance}",job="forebay"}}', "values": f"{value}x10"}
        for instance, numbers in values.items()
        for name, value in zip(metrics, numbers, strict=True)
    ]
    rule = "job:forebay_cluster_duplicates:ratio"
    test = {"interval": "1m", "input_series": series}
    expected = [{"labels": f'{rule}{{job="forebay"}}', "value": 0.02}]
    test["promql_expr_test"] = [{"expr": rule, "eval_time": "5m", "exp_samples": expected}]
    directory = ground.directory("duplicates")
    document = {"rule_files": [str(RULES / "recording.yml")], "tests": [test]}
    (directory / "tests.yml").write_text(yaml.safe_dump(document))
    promtool("test", "rules", "tests.yml", directory=directory)


def test_each_alert_names_a_section_that_exists() -> None:
    for rule in alerts():
        path, _, anchor = rule["annotations"]["runbook"].partition("#")
        headings = re.findall("^#+ (.*)$", (REPOSITORY / path).read_text(), re.MULTILINE)
        assert anchor in {heading.lower().replace(" ", "-") for heading in headings}, rule["alert"]


def queries() -> list[tuple[str, str]]:
    """Title and query of each panel of the dashboard."""
    dashboard = json.loads((RULES / "grafana-dashboard.json").read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel["targets"]]


def ask(address: str, query: str) -> list[Any]:
    """The result of a query."""
    url = f"http://{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        document = json.load(answer)
    assert document["status"] == "success", document
    return list(document["data"]["result"])


def start_prometheus(ground: Ground, target: str, alertmanager: str | None = None) -> tuple[Process, str]:
    """Starts a Prometheus that scrapes a cache; process and address. With an Alertmanager, alerts do not wait."""
    directory = ground.directory("prometheus")
    for name in ("recording", "alerts"):
        rules = (RULES / f"{name}.yml").read_text().replace("interval: 60s", "interval: 1s")
        if alertmanager:
            rules = re.sub(r"for: \d+m", "for: 1s", rules)
        (directory / f"{name}.yml").write_text(rules)
    configuration = yaml.safe_load((RULES / "scrape.yml").read_text())
    configuration["global"] = {"evaluation_interval": "1s"}
    (job,) = configuration["scrape_configs"]
    job.update(scrape_interval="2s", scrape_timeout="2s", static_configs=[{"targets": [target]}])
    if alertmanager:
        configuration["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
    (directory / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    address = f"127.0.0.1:{ground.free_port()}"
    argv = [
        "prometheus",
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        f"--web.listen-address={address}",
    ]
    server = Process("prometheus", argv, directory)

    def is_scraped() -> bool:
        assert server.is_running(), server.output()
        try:
            return bool(ask(address, "up == 1"))
        except OSError:
            return False

    until(is_scraped, "the cache is scraped", within=90)
    return server, address


def read(cache: Forebay, ground: Ground, count: int) -> Metrics:
    """Reads a file for the `count`th time, until it is kept and counted; the metrics then."""
    clients.fetch("forebay-get", ground, cache.file_url(PATH))
    # A read joins fills whose blocks are on the disk already: it would count as a partial hit.
    cache.settled_metrics()
    return until(lambda: (now := cache.metrics()).total(FILES_READ) == count and now, "the read is counted")


@pytest.fixture(scope="module")
def prometheus(ground: Ground, plain_origin: xrootd.Origin) -> Iterator[str]:
    """A Prometheus that scrapes a cache which clients read from; its address."""
    store = ground.directory("store")
    # With a budget, the rest of the disk does not decide what is purged.
    flags = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--budget", BUDGET]
    flags += ["--origin", plain_origin.url, "--store", str(store)]
    with Forebay(ground, flags, store=store) as cache:
        server, address = start_prometheus(ground, cache.admin_url.removeprefix("http://"))
        # Rates need growth between two scrapes.
        hits = 0.0
        for count in range(1, READS_MAX + 1):
            hits = read(cache, ground, count).total(FILES_READ, result="hit")
            until(partial(ask, address, f"sum({FILES_READ}) == {count}"), "the read is scraped", within=60)
            if hits == 2:
                break
        assert hits == 2, cache.process.output()
        until(lambda: bool(ask(address, "instance:forebay_hit_ratio_files:1d")), "the rules are evaluated")
        yield address
        server.stop()


def without_values(address: str) -> list[tuple[str, str]]:
    """The queries of the dashboard that have no values, with their titles."""
    shown = [
        (title, query.replace("$__rate_interval", "1m").replace("$instance", ".*"))
        for title, query in queries()
        if not any(name in query for name in ABSENT)
    ]
    return [(title, query) for title, query in shown if not ask(address, query)]


def test_every_query_of_the_dashboard_has_values(prometheus: str) -> None:
    # A scrape that takes too long leaves no values until the next one.
    empty: list[tuple[str, str]] = []

    def have_values() -> bool:
        empty[:] = without_values(prometheus)
        return not empty

    with contextlib.suppress(TimedOut):
        until(have_values, "every query has values")
    assert empty == []


def test_no_alert_fires_at_a_healthy_cache(prometheus: str) -> None:
    assert ask(prometheus, 'ALERTS{alertstate="firing"}') == []


def alerts_of(address: str) -> dict[str, dict[str, Any]]:
    """The alerts that an Alertmanager has, by name; none before it answers."""
    with (
        contextlib.suppress(OSError),
        urllib.request.urlopen(f"http://{address}/api/v2/alerts", timeout=10) as answer,
    ):
        return {alert["labels"]["alertname"]: alert for alert in json.load(answer)}
    return {}


def test_a_firing_alert_reaches_alertmanager_and_is_resolved(ground: Ground, plain_origin: xrootd.Origin) -> None:
    directory = ground.directory("alertmanager")
    (directory / "alertmanager.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    address = f"127.0.0.1:{ground.free_port()}"
    argv = [
        "prometheus-alertmanager",
        "--config.file=alertmanager.yml",
        "--storage.path=data",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
    ]
    alertmanager = Process("alertmanager", argv, directory)
    store, admin = ground.directory("store"), f"127.0.0.1:{ground.free_port()}"
    flags = ["--listen", "127.0.0.1:0", "--origin", plain_origin.url, "--store", str(store), "--admin-listen", admin]
    with Forebay(ground, flags, store=store):
        server, _ = start_prometheus(ground, admin, address)
    try:
        # The cache has ended.
        fired = until(lambda: alerts_of(address).get("ForebayDown"), "the alert arrives", within=60)
        assert fired["labels"]["severity"] == "critical"
        assert fired["annotations"]["summary"] == f"{admin} does not answer"
        assert fired["annotations"]["runbook"] == "docs/monitoring.md#server-is-down"
        with Forebay(ground, flags, store=store):
            until(lambda: "ForebayDown" not in alerts_of(address), "the alert is resolved", within=60)
            assert alertmanager.is_running(), alertmanager.output()
    finally:
        server.stop()
        alertmanager.stop()
