"""Files of an S3 server, read by clients of both protocols through a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from harness.clients import fetch, run_client
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground, program
from harness.http_client import ask
from harness.pki import Credential, Grid
from harness.s3_server import BUCKET, S3Server

Serve = Callable[[Mapping[str, Any]], Forebay]

FILES = {
    "store/large.bin": Pattern(9_000_000, 81),
    "store/empty.bin": Pattern(0, 82),
    "store/a b+%20(é).bin": Pattern(70_000, 83),
    "store/sub/inner.bin": Pattern(10, 84),
}


@pytest.fixture
def s3(ground: Ground, grid: Grid, host: Credential) -> Iterator[S3Server]:
    """A server of the files."""
    server = S3Server(ground, grid, host)
    for key, pattern in FILES.items():
        server.put(key, pattern.all())
    # A marker, as tools leave it for a directory.
    server.put("store/", b"")
    yield server
    server.stop()


@pytest.fixture
def cache(serve: Serve, grid: Grid, s3: S3Server) -> Callable[..., Forebay]:
    """Starts caches of the bucket."""

    def start(url: str = s3.url, keys: Path | None = None, *, is_anonymous: bool = False, **export: object) -> Forebay:
        keys = keys or s3.key_file(*s3.key)
        hidden = {"hosts": ["127.0.0.1"], "method": "s3", "access_keys": str(keys), "profile": "cache"}
        return serve(
            {
                "export": [{"path": "/", "origins": [url], **export}],
                "tls": {"ca_dir": str(grid.directory)},
                "credential": [] if is_anonymous else [hidden],
            }
        )

    return start


def test_objects_are_files_for_clients_of_root(cache: Callable[..., Forebay], s3: S3Server, ground: Ground) -> None:
    server = cache(keys=s3.require_signatures())
    for key, pattern in FILES.items():
        for state in ("cold", "warm"):
            assert_same(fetch("pyxrootd", ground, server.file_url(f"/{key}")), pattern.all(), f"{key} {state}")
    assert server.settled_metrics().origin_bytes == sum(pattern.size for pattern in FILES.values())
    listed = run_client([program("xrdfs"), server.address, "ls", "/store"])
    assert {line.rsplit("/", 1)[1] for line in listed.stdout.decode().splitlines()} == {
        "large.bin",
        "empty.bin",
        "a b+%20(é).bin",
        "sub",
    }
    for path, text in (("/store/large.bin", b"9000000"), ("/store", b"IsDir"), ("/", b"IsDir")):
        assert text in run_client([program("xrdfs"), server.address, "stat", path]).stdout, path
    for path in ("/store/none", "/sto", "/none/"):
        assert run_client([program("xrdfs"), server.address, "stat", path]).returncode != 0, path


def test_clients_of_http_get_the_tag_of_the_object_and_directories(cache: Callable[..., Forebay], s3: S3Server) -> None:
    server = cache()
    stored = s3.client("setup", "setup").head_object(Bucket=BUCKET, Key="store/large.bin")
    answer = ask(server, "GET", "/store/large.bin")
    assert answer.body == FILES["store/large.bin"].all()
    assert stored["ETag"].strip('"') in answer.fields["etag"]
    assert ask(server, "HEAD", "/store/large.bin").fields["etag"] == answer.fields["etag"]
    assert ask(server, "GET", "/store").status == 301
    assert b'href="sub/"' in ask(server, "GET", "/store/").body
    assert ask(server, "GET", "/none").status == 404


def test_requests_without_a_valid_signature_are_refused(cache: Callable[..., Forebay], s3: S3Server) -> None:
    s3.require_signatures()
    assert ask(cache(is_anonymous=True), "GET", "/store/large.bin").status == 403
    wrong = s3.key_file(s3.key[0], "x" + s3.key[1])
    assert ask(cache(keys=wrong), "GET", "/store/large.bin").status == 403


def test_an_object_that_was_replaced_is_read_again(cache: Callable[..., Forebay], s3: S3Server) -> None:
    server = cache(validity="each-open")
    old, new = Pattern(200_000, 1).all(), Pattern(200_000, 2).all()
    s3.put("changing", old)
    assert ask(server, "GET", "/changing").body == old
    server.settled_metrics()
    s3.put("changing", new)
    assert ask(server, "GET", "/changing").body == new


def test_the_base_of_an_origin_is_a_prefix_of_keys(cache: Callable[..., Forebay], s3: S3Server) -> None:
    server = cache(f"{s3.url}/store")
    assert ask(server, "GET", "/sub/inner.bin").body == FILES["store/sub/inner.bin"].all()
    assert b'href="large.bin"' in ask(server, "GET", "/").body


def test_clients_of_root_and_http_name_the_bucket(serve: Serve, s3: S3Server, ground: Ground, grid: Grid) -> None:
    keys = {"hosts": ["127.0.0.1"], "method": "s3", "access_keys": str(s3.require_signatures()), "profile": "cache"}
    allowed = {"allow": [f"s3://127.0.0.1:{s3.port}"]}
    server = serve({"forwarding": allowed, "tls": {"ca_dir": str(grid.directory)}, "credential": [keys]})
    for key, pattern in FILES.items():
        for state in ("cold", "warm"):
            url = f"{server.url}//{s3.url}/{key}"
            assert_same(fetch("pyxrootd", ground, url), pattern.all(), f"{key} {state}")
    assert ask(server, "GET", f"/{s3.url}/store/large.bin").body == FILES["store/large.bin"].all()
    assert server.settled_metrics().origin_bytes == sum(pattern.size for pattern in FILES.values())
    assert (server.data / f"s3:/127.0.0.1:{s3.port},{BUCKET}/store/large.bin").is_file()
    assert b'href="sub/"' in ask(server, "GET", f"/{s3.url}/store/").body
    stat = run_client([program("xrdfs"), server.address, "stat", f"/{s3.url}"])
    assert b"IsDir" in stat.stdout, stat.stderr
    assert ask(server, "GET", f"/s3://127.0.0.1:1/{BUCKET}/f").status == 403
    assert ask(server, "GET", f"/s3://127.0.0.1:{s3.port}").status >= 400, "it names no bucket"


def test_commands_read_objects_with_the_access_key_of_the_user(s3: S3Server, ground: Ground, grid: Grid) -> None:
    s3.require_signatures()
    without = {**grid.environment(), "AWS_SHARED_CREDENTIALS_FILE": "/none"}
    user = {**without, "AWS_ACCESS_KEY_ID": s3.key[0], "AWS_SECRET_ACCESS_KEY": s3.key[1]}
    for key, pattern in FILES.items():
        assert_same(fetch("forebay-get", ground, f"{s3.url}/{quote(key)}", user), pattern.all(), key)
    listed = run_client([ground.forebay, "ls", f"{s3.url}/store"], user)
    assert {line.rsplit("/", 1)[-1] for line in listed.stdout.decode().splitlines()} >= {"large.bin", "sub"}
    stat = run_client([ground.forebay, "stat", f"{s3.url}/store/large.bin"], user)
    assert b"size      9000000 (" in stat.stdout, stat.stderr
    assert run_client([ground.forebay, "stat", f"{s3.url}/store/large.bin"], without).returncode != 0
