"""Records reach OpenSearch and Elasticsearch, each once, also after times without a server."""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from harness import forebay, records, xrootd
from harness.clients import fetch, run_client
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import REPOSITORY, Ground
from harness.pki import Credential, Grid
from harness.process import service_ids
from harness.search_server import SearchServer
from harness.waiting import until

STREAM = "forebay-accesses"
PATHS = ["/sizes/many-blocks.bin", "/sizes/block.bin", "/sizes/one-byte.bin"]
DEPLOY = REPOSITORY / "deploy" / "opensearch"
# A server starts, and the pause between two tries may have grown.
ARRIVAL_SECONDS = 180.0


class Cache:
    """A cache with both outputs, which can be started again."""

    def __init__(self, ground: Ground, origin: xrootd.Origin, **search: object) -> None:
        self.ground, store = ground, ground.directory("store")
        self.store, self.files, self.spool = store, store / "records", store / "spool"
        self.configuration: dict[str, Any] = {
            "export": [{"path": "/", "origins": [origin.url]}],
            "monitoring": {"site": "LAB"},
            "records": {"path": str(self.files)},
            "opensearch": {"spool": str(self.spool), "install_template": True, **search},
            "store": {"path": str(store / "s")},
        }

    def start(self) -> Forebay:
        """Starts it, possibly again."""
        return forebay.configured(self.ground, self.configuration, store=self.store)

    def spooled(self) -> int:
        """Records that wait on disk."""
        return sum(path.read_text().count("\n") for path in self.spool.glob("spool-*.jsonl"))


def sent(cache: Forebay) -> float:
    return cache.metrics().total("forebay_records_sent_total", output="opensearch")


def read_all(cache: Forebay, ground: Ground, patterns: dict[str, Pattern], paths: list[str] = PATHS) -> None:
    for path in paths:
        assert_same(fetch("xrdcp", ground, cache.file_url(path)), patterns[path].all(), "xrdcp")


def aggregation(aggs: list[dict[str, Any]]) -> dict[str, Any]:
    """The request that a visualization sends."""
    metrics = {a["id"]: {a["type"]: a["params"]} for a in aggs if a["schema"] == "metric" and a["type"] != "count"}
    counts = {a["id"] for a in aggs if a["type"] == "count"}
    inner: dict[str, Any] = metrics
    for bucket in reversed([a for a in aggs if a["schema"] != "metric"]):
        params = bucket["params"]
        if bucket["type"] == "date_histogram":
            body = {"field": params["field"], "fixed_interval": "1m", "min_doc_count": params["min_doc_count"]}
        else:
            # Only an aggregation right below can order; the outer ones are ordered by their counts.
            by = params["orderBy"] if params["orderBy"] in inner and params["orderBy"] not in counts else "_count"
            body = {"field": params["field"], "size": params["size"], "order": {by: params["order"]}}
        inner = {bucket["id"]: {bucket["type"]: body, **({"aggs": inner} if inner else {})}}
    return inner


def check_saved_objects(server: SearchServer) -> None:
    """Every visualization has an answer with buckets, every reference leads somewhere."""
    objects = [json.loads(line) for line in (DEPLOY / "saved-objects.ndjson").read_text().splitlines()]
    ids = {(saved["type"], saved["id"]) for saved in objects}
    fields = server.get(f"/{STREAM}/_mapping")
    known = set(next(iter(fields.values()))["mappings"]["properties"])
    for saved in objects:
        assert all((reference["type"], reference["id"]) in ids for reference in saved["references"])
        if saved["type"] != "visualization":
            continue
        state = json.loads(saved["attributes"]["visState"])
        source = json.loads(saved["attributes"]["kibanaSavedObjectMeta"]["searchSourceJSON"])
        wanted = {a["params"]["field"] for a in state["aggs"] if "field" in a["params"]}
        assert wanted <= known, saved["id"]
        events = source["query"]["query"].removeprefix("event : ").strip("()").split(" or ")
        body = {"size": 0, "query": {"terms": {"event": events}}, "aggs": aggregation(state["aggs"])}
        answer = server.ask("POST", f"/{STREAM}/_search", body)
        (outer,) = answer["aggregations"].values()
        assert outer["buckets"], saved["id"]


def test_opensearch_gets_each_record_once_after_an_absence_a_repetition_and_a_rollover(
    ground: Ground, plain_origin: xrootd.Origin, patterns: dict[str, Pattern]
) -> None:
    port = ground.free_port()
    nowhere, server_url = f"http://127.0.0.1:{ground.free_port()}", f"http://127.0.0.1:{port}"
    site = Cache(ground, plain_origin, urls=[nowhere, server_url])
    site.configuration["rule"] = [{"path": "/sizes/one-byte.bin", "action": "redirect"}]
    with site.start() as cache:
        read_all(cache, ground, patterns)
        gone = run_client(["xrdcp", "-f", "-s", cache.file_url("/sizes/gone.bin"), "/dev/null"])
        assert gone.returncode != 0
        events = {"close", "redirect", "failed"}
        until(lambda: {record["event"] for record in records.written(site.files)} == events, "all are recorded")
        until(
            lambda: cache.metrics().total("forebay_record_requests_failed_total") >= 2,
            "both servers are absent",
            within=120,
        )
        until(lambda: site.spooled() >= len(records.written(site.files)), "all are in the spool")
        with SearchServer(ground, "opensearch", port) as server:
            ids = {record["record_id"] for record in records.written(site.files)}
            until(lambda: sent(cache) == len(ids), "the spool is sent", within=ARRIVAL_SECONDS)
            assert server.count(STREAM) == len(ids)
            (stream,) = server.get(f"/_data_stream/{STREAM}")["data_streams"]
            assert stream["timestamp_field"]["name"] == "@timestamp"
            until(lambda: site.spooled() == 0, "the spool is empty")
            check_saved_objects(server)
            # A repetition: as if the process had ended before it saw the answer.
            cache.stop()
            (file,) = site.files.glob("records-*.jsonl")
            (site.spool / "spool-000000000099.jsonl").write_bytes(file.read_bytes())
            with site.start() as again:
                until(lambda: sent(again) == len(ids), "the repetition is settled", within=ARRIVAL_SECONDS)
                assert server.count(STREAM) == len(ids), "none is stored twice"
                assert server.ask("POST", f"/{STREAM}/_rollover")["rolled_over"]
                read_all(again, ground, patterns, ["/sizes/block.bin"])
                until(lambda: sent(again) == len(ids) + 1, "records arrive after a rollover", within=ARRIVAL_SECONDS)
                assert len(server.get(f"/_data_stream/{STREAM}")["data_streams"][0]["indices"]) == 2
                assert server.count(STREAM) == len(ids) + 1
                assert again.metrics().total("forebay_records_dropped_total") == 0
            found = server.ask("POST", f"/{STREAM}/_search", {"query": {"term": {"event": "redirect"}}})
            document = found["hits"]["hits"][0]
            (written,) = [r for r in records.written(site.files) if r["record_id"] == document["_id"]]
            assert document["_source"] == written


def test_elasticsearch_7_takes_daily_indices(
    ground: Ground, plain_origin: xrootd.Origin, patterns: dict[str, Pattern]
) -> None:
    port = ground.free_port()
    site = Cache(ground, plain_origin, urls=[f"http://127.0.0.1:{port}"], index="daily")
    with SearchServer(ground, "elasticsearch", port) as server, site.start() as cache:
        read_all(cache, ground, patterns)
        until(lambda: sent(cache) == len(PATHS), "all are sent", within=ARRIVAL_SECONDS)
        assert server.count(f"{STREAM}-*") == len(PATHS)
        (properties,) = {
            json.dumps(index["mappings"]["properties"]["client_ip"])
            for index in server.get(f"/{STREAM}-*/_mapping").values()
        }
        assert json.loads(properties) == {"type": "ip", "ignore_malformed": True}


class Scripted(BaseHTTPRequestHandler):
    """Answers bulk requests by a script of statuses, then by the state of the records."""

    script: list[int]
    bodies: list[list[str]]
    stored: list[str]
    busy: set[str]
    refused: set[str]
    authorizations: set[str | None]

    def do_POST(self) -> None:
        """Answers a bulk request."""
        cls = type(self)
        lines = self.rfile.read(int(self.headers["Content-Length"])).decode().splitlines()
        ids = [json.loads(line)["create"]["_id"] for line in lines[::2]]
        assert [json.loads(line)["record_id"] for line in lines[1::2]] == ids
        cls.authorizations.add(self.headers["Authorization"])
        cls.bodies.append(ids)
        status = cls.script.pop(0) if cls.script else 200
        answer: dict[str, Any] = {"errors": False}
        if status == 200:
            items = [{"create": self.settle(identity)} for identity in ids]
            answer = {"errors": any(item["create"]["status"] != 201 for item in items), "items": items}
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def settle(self, identity: str) -> dict[str, Any]:
        """The result of one record."""
        cls = type(self)
        if identity in cls.refused:
            return {"status": 400, "error": {"type": "mapper_parsing_exception", "reason": "no"}}
        if identity in cls.busy:
            cls.busy.discard(identity)
            return {"status": 429, "error": {"type": "rejected_execution_exception", "reason": "busy"}}
        if identity in cls.stored:
            return {"status": 409, "error": {"type": "version_conflict_engine_exception", "reason": "there"}}
        cls.stored.append(identity)
        return {"status": 201}

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


@contextmanager
def scripted(script: list[int], credential: Credential | None = None) -> Iterator[tuple[str, type[Scripted]]]:
    """The URL of a server, with a credential over TLS, and its state."""
    state = {"script": script, "bodies": [], "stored": [], "busy": set(), "refused": set(), "authorizations": set()}
    handler = type("State", (Scripted,), state)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    scheme = "http"
    if credential:
        context, scheme = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "https"
        context.load_cert_chain(credential.certificate, credential.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{scheme}://127.0.0.1:{server.server_port}", handler
    finally:
        server.shutdown()
        server.server_close()


def spool_of(site: Cache, count: int) -> list[str]:
    """Fills the spool before the start; returns the identities."""
    site.spool.mkdir()
    ids = [f"h-1-{number}" for number in range(count)]
    lines = [json.dumps({"record_id": i, "@timestamp": 1_700_000_000_000}, separators=(",", ":")) for i in ids]
    (site.spool / "spool-000000000001.jsonl").write_text("".join(line + "\n" for line in lines))
    for path in (site.spool, *site.spool.iterdir()):
        path.chmod(0o777)
    return ids


def test_overload_long_requests_and_bad_records_cost_only_the_bad_ones(
    ground: Ground, plain_origin: xrootd.Origin
) -> None:
    secret = ground.directory("secret") / "key"
    secret.write_text("a2V5OnNlY3JldA==\n")
    secret.chmod(0o440)
    if ids_of_service := service_ids():
        os.chown(secret, *ids_of_service)
    with scripted([503, 413, 429]) as (url, state):
        site = Cache(ground, plain_origin, urls=[url], install_template=False, api_key_file=str(secret))
        ids = spool_of(site, 8)
        state.busy, state.refused, state.stored = {ids[2]}, {ids[5]}, [ids[7]]
        with site.start() as cache:
            until(lambda: sent(cache) == 7, "all but one are stored", within=ARRIVAL_SECONDS)
            metrics = cache.metrics()
            assert metrics.total("forebay_records_dropped_total", output="opensearch") == 1
            assert metrics.total("forebay_record_requests_failed_total") == 3, "503, 429, and an item with 429"
            until(lambda: not list(site.spool.iterdir()), "nothing waits")
        assert state.authorizations == {"ApiKey a2V5OnNlY3JldA=="}
        assert sorted(state.stored) == sorted(set(ids) - {ids[5]})
        assert [len(body) for body in state.bodies[:4]] == [8, 8, 4, 4], "halved after 413"


def test_records_and_passwords_go_to_a_server_with_a_trusted_certificate_only(
    ground: Ground, plain_origin: xrootd.Origin, grid: Grid
) -> None:
    names = ("DNS:localhost", "IP:127.0.0.1")
    secret = ground.directory("secret") / "password"
    secret.write_text("open-sesame\n")
    secret.chmod(0o440)
    if ids_of_service := service_ids():
        os.chown(secret, *ids_of_service)
    ca = ground.directory("ca") / "ca.pem"
    ca.write_text(grid.root.certificate.read_text())
    ca.chmod(0o644)
    stranger = grid.stranger.host("localhost", *names)
    with scripted([], stranger) as (strange, not_trusted), scripted([], grid.host(*names)) as (url, trusted):
        password = {"user": "ann", "password_file": str(secret)}
        settings: dict[str, Any] = {"install_template": False, "ca_file": str(ca), **password}
        site = Cache(ground, plain_origin, urls=[strange, url], **settings)
        ids = spool_of(site, 3)
        with site.start() as cache:
            until(lambda: sent(cache) == len(ids), "all are stored", within=ARRIVAL_SECONDS)
            assert cache.metrics().total("forebay_record_requests_failed_total") == 1, "the first server is not trusted"
    assert (not_trusted.bodies, sorted(trusted.stored)) == ([], ids)
    assert trusted.authorizations == {"Basic YW5uOm9wZW4tc2VzYW1l"}


def test_a_server_that_hangs_costs_readers_nothing_and_its_records_survive(
    ground: Ground, plain_origin: xrootd.Origin, patterns: dict[str, Pattern]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        site = Cache(ground, plain_origin, urls=[f"http://127.0.0.1:{hanging.getsockname()[1]}"])
        with site.start() as cache:
            read_all(cache, ground, patterns)
            records.closes(site.files, len(PATHS))
            connection, _ = hanging.accept()
            assert cache.metrics().total("forebay_records_dropped_total") == 0
        connection.close()
        # The stop has not waited for the answer, and has kept the records.
        assert site.spooled() == len(PATHS)
