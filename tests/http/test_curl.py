"""curl: whole files, ranges, resumed copies, several ranges; cold and warm, byte for byte."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from harness import forebay, xrootd
from harness.clients import fetch
from harness.content import assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground, program
from harness.http_client import Reply, ask, parts_of

from .conftest import FILE, FILES


def curl(*arguments: str | Path, status: int = 0) -> bytes:
    """Runs curl to its end."""
    done = subprocess.run(
        [program("curl"), "--silent", "--show-error", "--max-time", "60", *arguments], capture_output=True, check=False
    )
    assert done.returncode == status, done.stderr.decode()
    return done.stdout


def url(server: Forebay, path: str) -> str:
    return f"http://{server.address}{quote(path)}"


@pytest.mark.parametrize("path", FILES)
def test_files_arrive_cold_and_warm(cache: Forebay, path: str) -> None:
    for temperature in ("cold", "warm"):
        assert_same(curl("--fail", url(cache, path)), FILES[path].all(), f"{path} {temperature}")


def test_the_second_copy_comes_from_the_cache(cache: Forebay) -> None:
    content = FILES[FILE].all()
    curl("--fail", url(cache, FILE))
    cache.settled_metrics()
    assert_same(curl("--fail", url(cache, FILE)), content, "warm")
    served = cache.metrics()
    assert served.total("forebay_client_bytes_total", outcome="hit") == len(content)


def test_requests_are_counted_by_kind(cache: Forebay) -> None:
    for arguments in ((), ("--range", "0-9"), ("--range", "0-9,20-29"), ("--head",), ("--request", "PROPFIND")):
        curl("--fail", *arguments, url(cache, FILE))
    curl("--fail", "--request", "PROPFIND", "--header", "Depth: 1", f"http://{cache.address}/")
    curl("--request", "OPTIONS", url(cache, FILE))
    curl("--request", "PUT", url(cache, FILE))
    requests = cache.metrics().by("forebay_client_requests_total", "kind")
    counted = {kind: count for kind, count in requests.items() if count}
    assert counted == {"read": 2, "readv": 1, "stat": 2, "dirlist": 1, "session": 1, "write": 1}


@pytest.mark.parametrize("span", ["0-0", "100-70000", "2600000-", "-1", "2622673-99999999999"])
def test_ranges_are_exact(cache: Forebay, span: str) -> None:
    content = FILES[FILE].all()
    first, last = span.split("-")
    expected = content[-int(last) :] if not first else content[int(first) : int(last) + 1 if last else None]
    for temperature in ("cold", "warm"):
        assert_same(curl("--fail", "--range", span, url(cache, FILE)), expected, f"{span} {temperature}")


def test_several_ranges_come_in_the_order_of_the_request(cache: Forebay) -> None:
    content = FILES[FILE].all()
    spans = [(2 * BLOCK, 3 * BLOCK), (0, 9), (10, 19), (len(content) - 5, len(content) - 1)]
    asked = ",".join(f"{first}-{last}" for first, last in spans)
    for temperature in ("cold", "warm"):
        answer = curl("--fail", "--include", "--range", asked, url(cache, FILE))
        head, body = answer.split(b"\r\n\r\n", 1)
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
        assert int(fields["Content-Length"]) == len(body)
        parts = parts_of(Reply(206, {"content-type": fields["Content-Type"]}, body))
        expected = [(f"{first}-{last}/{len(content)}", content[first : last + 1]) for first, last in spans]
        assert parts == expected, temperature


def test_a_copy_is_resumed(cache: Forebay, ground: Ground) -> None:
    content = FILES[FILE].all()
    target = ground.directory("resumed") / "file.bin"
    target.write_bytes(content[:1_000_000])
    curl("--fail", "--continue-at", "-", "--output", target, url(cache, FILE))
    assert_same(target.read_bytes(), content, "resumed")
    # curl takes the 416 for a complete file for its end.
    curl("--continue-at", "-", "--output", target, url(cache, FILE))
    assert_same(target.read_bytes(), content, "complete")


def test_a_copy_that_has_not_changed_is_not_sent_again(cache: Forebay, ground: Ground) -> None:
    directory = ground.directory("unchanged")
    etag, target = directory / "etag", directory / "file.bin"
    tags: list[str | Path] = ["--etag-save", etag, "--etag-compare", etag]
    arguments = [*tags, "--write-out", "%{http_code}", "--output", target]
    assert curl(*arguments, url(cache, FILE)) == b"200"
    assert curl(*arguments, url(cache, FILE)) == b"304"
    assert curl("--time-cond", target, "--write-out", "%{http_code}", "--output", target, url(cache, FILE)) == b"304"


def test_one_port_serves_both_protocols(cache: Forebay, ground: Ground) -> None:
    content = FILES[FILE].all()
    assert_same(fetch("xrdcp", ground, cache.file_url(FILE)), content, "root")
    assert_same(curl("--fail", url(cache, FILE)), content, "http")


def test_ports_serve_the_protocols_of_the_configuration(
    serve: Callable[..., Forebay], ground: Ground, http_data: Path
) -> None:
    export = {"path": "/", "directory": str(http_data)}
    server = serve({"http": {"listen": ["127.0.0.1:0"], "shared": False}, "export": [export]})
    http = server.process.wait_for_line(r"^http (http://\S+)$")[1]
    content = FILES[FILE].all()
    assert_same(curl("--fail", f"{http}{FILE}"), content, "http")
    assert_same(fetch("xrdcp", ground, server.file_url(FILE)), content, "root")
    # A port of the other protocol closes the connection.
    curl(url(server, FILE), status=52)
    refused = subprocess.run(
        [program("xrdfs"), http.removeprefix("http://"), "stat", FILE],
        env={"XRD_CONNECTIONRETRY": "1", "XRD_CONNECTIONWINDOW": "2", "XRD_STREAMERRORWINDOW": "0"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode != 0


def test_the_files_of_another_origin_are_named_in_the_path(ground: Ground, http_origin: xrootd.Origin) -> None:
    with forebay.forwarding_cache(ground) as cache:
        content = FILES[FILE].all()
        for temperature in ("cold", "warm"):
            assert_same(curl("--fail", f"http://{cache.address}/{http_origin.url}/{FILE}"), content, temperature)


def test_names_below_a_file_are_conflicts(cache: Forebay) -> None:
    for path in (f"{FILE}/below", f"{FILE}/"):
        assert ask(cache, "GET", path).status == 409
    assert_same(curl("--fail", url(cache, FILE)), FILES[FILE].all(), "the file itself")


def test_missing_files_are_not_found_and_keep_the_connection(cache: Forebay) -> None:
    missing = url(cache, "/data/missing")
    arguments = ["--write-out", "%{http_code} %{num_connects}\n", "--output", "/dev/null"]
    assert curl(*arguments, missing, *arguments[2:], missing).decode().split() == ["404", "1", "404", "0"]
