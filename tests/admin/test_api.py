"""Operations of the administration API."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness import clients, forebay
from harness.admin import TOKEN, Site
from harness.content import Pattern
from harness.forebay import BLOCK
from harness.ground import REPOSITORY, Ground
from harness.waiting import until
from harness.xrootd import Origin

PATH = "/sizes/many-blocks.bin"
SMALL = "/sizes/block.bin"
SCHEMATHESIS_SECONDS = 550


def fetch(site: Site, path: str) -> None:
    """A client reads a file through the cache."""
    clients.fetch("forebay-get", site.ground, site.server.file_url(path))


def wait_until_listed(site: Site, path: str) -> None:
    """The index learns of a file after the reads."""
    until(lambda: site.call("GET", f"/api/v1/files{path}").status == 200, f"{path} is in the index")


def test_the_status_has_the_served_bytes(site: Site, patterns: dict[str, Pattern]) -> None:
    fetch(site, PATH)
    site.server.settled_metrics()
    fetch(site, PATH)
    status = site.get("/status")
    assert status["state"] == "ready"
    served = status["client_bytes"]
    assert sum(served.values()) == 2 * patterns[PATH].size
    assert served["hit"] >= patterns[PATH].size
    assert 0.5 <= status["hit_ratio"] <= 1
    assert status["memory"]["budget_bytes"] == 64 << 20
    assert status["space"]["free_bytes"] > 0


def test_a_file_is_shown_with_its_blocks_and_accesses(site: Site, patterns: dict[str, Pattern]) -> None:
    fetch(site, PATH)
    size = patterns[PATH].size
    wait_until_listed(site, PATH)
    until(lambda: site.get(f"/files{PATH}")["file"]["is_complete"], "the file is complete in the index")
    detail = site.get(f"/files{PATH}")
    assert (detail["file"]["name"], detail["file"]["size"]) == (PATH, size)
    blocks = -(-size // BLOCK)
    record = detail["record"]
    assert (record["blocks_total"], record["present"]) == (blocks, [{"first": 0, "count": blocks}])
    assert record["accesses"][-1]["opens"] == 1
    encoded = site.get("/files/" + PATH[1:].replace("/", "%2F"))
    assert encoded["file"]["name"] == PATH


def test_files_are_listed_in_pages_and_by_pattern(site: Site, patterns: dict[str, Pattern]) -> None:
    for path in patterns:
        fetch(site, path)
    for path in patterns:
        wait_until_listed(site, path)
    listed, after = [], ""
    while True:
        page = site.get(f"/files?limit=2{after}")
        assert len(page["files"]) <= 2
        listed += [file["name"] for file in page["files"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert listed == sorted(patterns)
    by_pattern = [file["name"] for file in site.get("/files?pattern=/sizes/block*.bin")["files"]]
    assert by_pattern == sorted(path for path in patterns if path.startswith("/sizes/block"))
    assert site.get("/files?pattern=/nothing/**")["files"] == []


def test_prefetched_files_are_hits(site: Site, patterns: dict[str, Pattern], plain_origin: Origin) -> None:
    forwarded = f"root://cache//{plain_origin.url}/{SMALL}"
    begun = site.call("POST", "/api/v1/prefetch", {"names": [PATH, forwarded, "/nothing", "no path"]})
    assert begun.status == 202
    job = until(
        lambda: (now := site.get(f"/jobs/{begun.json['id']}"))["state"] != "running" and now, "the job has ended"
    )
    assert begun.headers["location"] == f"/api/v1/jobs/{job['id']}"
    assert (job["state"], job["files"]) == ("done", {"total": 4, "done": 2, "failed": 2})
    assert {failure["name"] for failure in job["failures"]} == {"/nothing", "no path"}
    site.server.settled_metrics()
    for url in (site.server.file_url(PATH), f"{site.server.url}//{plain_origin.url}/{SMALL}"):
        before = site.server.metrics()
        clients.fetch("forebay-get", site.ground, url)
        after = site.server.metrics()
        assert after.origin_bytes == before.origin_bytes
    assert site.call("DELETE", f"/api/v1/jobs/{job['id']}").status == 204
    assert site.call("GET", f"/api/v1/jobs/{job['id']}").problem == "no-such-job"


def test_open_and_pinned_files_are_not_evicted_unless_forced(site: Site, patterns: dict[str, Pattern]) -> None:
    fetch(site, PATH)
    site.server.settled_metrics()
    wait_until_listed(site, PATH)
    pin = site.call("PUT", f"/api/v1/pins{PATH}", {"seconds": 600})
    assert pin.status == 200
    assert site.call("DELETE", f"/api/v1/files{PATH}").problem == "pinned"
    assert site.call("DELETE", f"/api/v1/pins{PATH}").status == 204
    client = site.server.client()
    handle = client.open(PATH)
    assert site.call("DELETE", f"/api/v1/files{PATH}").problem == "open"
    forced = site.call("DELETE", f"/api/v1/files{PATH}?force=true")
    assert forced.json == {"name": PATH, "bytes": patterns[PATH].size}
    assert client.read(handle, 0, 1000).ok() == patterns[PATH].read(0, 1000)
    client.close()
    until(lambda: site.call("GET", f"/api/v1/files{PATH}").status == 404, "the file has left the index")
    assert not (site.store / PATH[1:]).exists()
    fetch(site, PATH)


def test_a_scrub_reads_everything_and_finds_nothing_wrong(site: Site, patterns: dict[str, Pattern]) -> None:
    fetch(site, PATH)
    until(lambda: site.call("GET", f"/api/v1/files{PATH}").status == 200, "the file is in the index")
    assert site.call("POST", "/api/v1/scrub").status == 202
    scrub = until(lambda: not (now := site.get("/scrub"))["is_running"] and now, "the scrub has ended")
    assert scrub["finished"] is not None
    assert (scrub["is_running"], scrub["bad_blocks"]) == (False, 0)
    assert site.get("/status")["scrub"] == scrub


def test_a_drained_server_serves_open_files_only(site: Site, patterns: dict[str, Pattern]) -> None:
    client = site.server.client()
    handle = client.open(PATH)
    assert site.call("POST", "/api/v1/drain").json["open_handles"] == 1
    ready = site.call("GET", "/readyz")
    assert (ready.status, ready.body) == (503, b"draining\n")
    assert client.read(handle, 0, 1000).ok() == patterns[PATH].read(0, 1000)
    assert forebay.run(site.ground, "stat", site.server.file_url(PATH)).returncode == 0, "nothing is opened"
    for copier, overloaded in (("xrdcp", "[3024]"), ("pyxrootd", "[3024]"), ("forebay-get", "draining")):
        with pytest.raises(clients.ClientFailed, match=re.escape(overloaded)):
            clients.fetch(copier, site.ground, site.server.file_url(PATH))
    assert site.call("POST", "/api/v1/prefetch", {"names": [PATH]}).problem == "draining"
    client.close()
    until(lambda: site.call("POST", "/api/v1/drain").json["open_handles"] == 0, "the file is closed")
    assert site.call("DELETE", "/api/v1/drain").json["is_draining"] is False
    assert site.call("GET", "/readyz").status == 200
    fetch(site, PATH)


def test_errors_are_problem_documents(site: Site) -> None:
    mistakes: list[tuple[str, str, object, int, str]] = [
        ("GET", "/api/v1/nothing", None, 404, "no-such-path"),
        ("GET", "/api", None, 404, "no-such-path"),
        ("PATCH", "/api/v1/drain", None, 405, "method"),
        ("GET", "/api/v1/files?limit=0", None, 400, "invalid"),
        ("GET", "/api/v1/files?patern=x", None, 400, "invalid"),
        ("GET", "/api/v1/files?pattern=x", None, 400, "invalid"),
        ("GET", "/api/v1/files/nothing", None, 404, "not-cached"),
        ("GET", "/api/v1/files/..%2Fx", None, 404, "not-cached"),
        ("POST", "/api/v1/prefetch", {"names": []}, 400, "invalid"),
        ("POST", "/api/v1/prefetch", {"name": ["/a"]}, 400, "invalid"),
        ("POST", "/api/v1/prefetch", b"{", 400, "invalid"),
        ("POST", "/api/v1/prefetch", b" " * ((4 << 20) + 1), 413, "too-long"),
        ("GET", "/api/v1/jobs/1-1", None, 404, "no-such-job"),
        ("DELETE", "/api/v1/files/nothing", None, 404, "not-cached"),
        ("DELETE", "/api/v1/files", None, 400, "invalid"),
        ("DELETE", "/api/v1/files?pattern=/a&force=maybe", None, 400, "invalid"),
        ("PUT", "/api/v1/pins/nothing", {"seconds": 60}, 404, "not-cached"),
        ("PUT", "/api/v1/pins/nothing", {"seconds": 0}, 400, "invalid"),
        ("POST", "/api/v1/purge", {"to": 1.5}, 400, "invalid"),
    ]
    for method, path, body, status, problem in mistakes:
        answer = site.call(method, path, body)
        assert (answer.status, answer.problem) == (status, problem), path
    no_json = site.call("POST", "/api/v1/prefetch", b"names=a", headers={"Content-Type": "text/plain"})
    assert no_json.problem == "media-type"
    assert site.call("PATCH", "/api/v1/drain").headers["allow"] == "POST, DELETE"


def test_the_document_is_the_stored_one(site: Site) -> None:
    stored = json.loads((REPOSITORY / "docs" / "openapi.json").read_text())
    assert site.get("/openapi.json") == stored


def test_the_api_is_as_its_document_says(ground: Ground, site: Site) -> None:
    url = f"{site.server.admin_url}/api/v1/openapi.json"
    program = Path(sys.executable).with_name("schemathesis")
    argv = [
        str(program),
        "run",
        url,
        "--header",
        f"Authorization: Bearer {TOKEN}",
        "--max-examples=12",
        "--seed=1",
        "--generation-deterministic",
        "--request-timeout=20",
        "--suppress-health-check=all",
        # Later phases send paths that are refused as too long before they are parsed.
        "--phases=examples,coverage,fuzzing",
        # A schema cannot express all conditions on a path or a pattern.
        "--exclude-checks=positive_data_acceptance",
    ]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=SCHEMATHESIS_SECONDS, check=False, cwd=ground.directory("st")
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
