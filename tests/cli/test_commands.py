"""The commands as their users type them."""

from __future__ import annotations

import json
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import forebay, xrootd
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.metrics import parse
from harness.relay import Relay
from harness.scripted import ScriptedOrigin
from harness.waiting import until
from harness.wire import Request

PATH = "/sizes/many-blocks.bin"
COMPARED_BYTES = 1 << 20


def test_help_and_version_work(ground: Ground) -> None:
    assert "serve" in forebay.run(ground, "--help").stdout
    assert forebay.run(ground, "--version").stdout.startswith("forebay ")
    for command in ("serve", "check-config", "inspect", "get", "ls", "stat", "root-layout"):
        assert forebay.run(ground, command, "--help").returncode == 0


def test_unknown_flag_is_a_usage_error(ground: Ground) -> None:
    result = forebay.run(ground, "serve", "--nonsense")
    assert result.returncode == 2
    assert "--nonsense" in result.stderr


def test_get_writes_the_file_and_refuses_to_overwrite(
    ground: Ground, forebay_origin: Forebay, patterns: dict[str, Pattern]
) -> None:
    target = ground.directory("get") / "file.bin"
    first = forebay.run(ground, "get", forebay_origin.file_url(PATH), "-o", str(target))
    assert first.returncode == 0, first.stderr
    assert_same(target.read_bytes(), patterns[PATH].all(), "get")
    second = forebay.run(ground, "get", forebay_origin.file_url(PATH), "-o", str(target))
    assert second.returncode != 0
    assert str(target) in second.stderr


def test_get_replaces_nothing_but_files(ground: Ground, forebay_origin: Forebay) -> None:
    folder = ground.directory("get")
    pipe, link = folder / "pipe", folder / "link"
    os.mkfifo(pipe)
    link.symlink_to("nowhere")
    for target in (pipe, link):
        result = forebay.run(ground, "get", "--force", forebay_origin.file_url(PATH), "-o", str(target))
        assert result.returncode == 1
        assert f"{target} is not a regular file" in result.stderr
    assert (pipe.is_fifo(), link.is_symlink(), len(list(folder.iterdir()))) == (True, True, 2)


def test_get_of_a_missing_file_leaves_nothing(ground: Ground, forebay_origin: Forebay) -> None:
    folder = ground.directory("get")
    result = forebay.run(ground, "get", forebay_origin.file_url("/nowhere"), "-o", str(folder / "file"))
    assert result.returncode == 1
    assert "/nowhere" in result.stderr
    assert list(folder.iterdir()) == []


def test_get_resumes_where_it_was_cut(ground: Ground) -> None:
    target = ground.directory("get") / "file.bin"
    content = Pattern(24_000_000, 6)
    data = ground.directory("data")
    content.write(data / "file.bin")
    origin = xrootd.plain(ground, data)
    with Relay(("127.0.0.1", origin.port)) as relay:
        url = f"{relay.url}//file.bin"
        relay.cut_after(content.size // 2)
        assert forebay.run(ground, "get", url, "-o", str(target), within=120).returncode == 1
        assert not target.exists()
        kept = target.with_name("file.bin.part").stat().st_size
        assert kept > 0
        relay.revive()
        relay.forget()
        result = forebay.run(ground, "get", url, "-o", str(target))
        assert result.returncode == 0, result.stderr
        # The end of the existing part is compared with the origin's bytes before the rest is fetched.
        assert min(read.offset for read in relay.reads) >= kept - COMPARED_BYTES
        assert "resumed" in result.stderr
    origin.stop()
    assert_same(target.read_bytes(), content.all(), "resumed")


def test_get_refuses_a_file_whose_checksum_is_not_the_origins(ground: Ground) -> None:
    content = Pattern(300_000, 4)
    target = ground.directory("get") / "file.bin"
    with ScriptedOrigin({"/f.bin": content}) as origin:
        origin.on(Request.QUERY, lambda exchange: exchange.reply(b"adler32 00000001\0"))
        result = forebay.run(ground, "get", f"{origin.url}//f.bin", "-o", str(target))
    assert result.returncode == 1
    assert "adler32" in result.stderr
    assert not target.exists()


def test_ls_and_stat_speak_to_any_server(ground: Ground, any_origin: xrootd.Origin | Forebay, data: Path) -> None:
    listing = forebay.run(ground, "ls", f"{any_origin.url}//sizes")
    assert listing.returncode == 0, listing.stderr
    for entry in (data / "sizes").iterdir():
        assert entry.name in listing.stdout
    stat = forebay.run(ground, "stat", f"{any_origin.url}/{PATH}")
    assert stat.returncode == 0, stat.stderr
    assert str((data / PATH[1:]).stat().st_size) in stat.stdout.replace(",", "").replace(" ", "")


@pytest.mark.parametrize("url", ["nonsense", "http://x/y", "root://", "root://127.0.0.1:99999//x"])
def test_bad_url_is_explained(ground: Ground, url: str) -> None:
    result = forebay.run(ground, "stat", url)
    assert result.returncode != 0
    assert result.stderr.strip()
    assert "panicked" not in result.stderr


def test_inspect_prints_text_and_json(
    ground: Ground, plain_origin: xrootd.Origin, cache_of: Callable[..., Forebay], patterns: dict[str, Pattern]
) -> None:
    cache = cache_of(plain_origin.url)
    with cache.client() as client:
        client.read(client.open(PATH), 0, 1 << 30).ok()
    cache.stop()
    for name in (PATH[1:], f"{PATH[1:]}.cinfo"):
        shown = forebay.run(ground, "inspect", str(cache.data / name))
        assert shown.returncode == 0, shown.stderr
        assert "100" in shown.stdout
        as_json = json.loads(forebay.run(ground, "inspect", "--json", str(cache.data / name)).stdout)
        assert patterns[PATH].size in flat_values(as_json)


def flat_values(value: object) -> list[object]:
    """Every value anywhere inside a JSON document."""
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in flat_values(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in flat_values(item)]
    return [value]


def test_inspect_of_garbage_is_an_error(ground: Ground, tmp_path: Path) -> None:
    garbage = tmp_path / "x.cinfo"
    garbage.write_bytes(b"garbage" * 20)
    result = forebay.run(ground, "inspect", str(garbage))
    assert result.returncode == 1
    assert str(garbage) in result.stderr


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[server]\nlisten = ['127.0.0.1:0']\nnonsense = 1\n", "nonsense"),
        ("[store]\npath = '/tmp'\nblock_size = '65 parsecs'\n", "parsecs"),
        ("[server]\nlisten = ['127.0.0.1:0']\n[[export]]\npath = '/a'\norigins = ['ftp://x']\n", "ftp"),
        ("[server\n", "unclosed"),
    ],
)
def test_bad_configuration_is_refused_with_file_and_line(ground: Ground, text: str, complaint: str) -> None:
    file = ground.directory("bad") / "bad.toml"
    file.write_text(text)
    for command in (["check-config", str(file)], ["serve", "--config", str(file)]):
        result = forebay.run(ground, *command)
        assert result.returncode == 2, result.stdout + result.stderr
        assert "bad.toml" in result.stderr
        assert complaint in result.stderr


def test_good_configuration_is_accepted(ground: Ground, plain_origin: xrootd.Origin) -> None:
    export = {"path": "/store", "origins": [plain_origin.url]}
    full = forebay.complete({"export": [export]}, ground.directory("store"))
    result = forebay.run(ground, "check-config", str(forebay.write_configuration(ground, full)))
    assert result.returncode == 0, result.stderr


def test_overlapping_exports_are_refused(ground: Ground, plain_origin: xrootd.Origin) -> None:
    export = {"path": "/store", "origins": [plain_origin.url]}
    full = forebay.complete({"export": [export, export]}, ground.directory("store"))
    result = forebay.run(ground, "check-config", str(forebay.write_configuration(ground, full)))
    assert result.returncode == 2
    assert "/store" in result.stderr


def test_unwritable_store_is_refused_at_start(ground: Ground, tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("not a directory")
    arguments = ["--listen", "127.0.0.1:0", "--origin", "root://127.0.0.1:1094", "--store", str(occupied)]
    result = forebay.run(ground, "serve", *arguments)
    assert result.returncode != 0
    assert result.stderr.count(str(occupied)) == 1, "the failure is reported once"


def test_server_that_cannot_be_reached_is_named_once(ground: Ground) -> None:
    server = f"127.0.0.1:{ground.free_port()}"
    result = forebay.run(ground, "get", f"root://{server}//file")
    assert result.returncode == 1
    assert result.stderr.count(server) == 1


def test_port_in_use_is_named_in_the_error(ground: Ground, data: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = forebay.run(ground, "serve", "--listen", address, "--export-dir", str(data))
    assert result.returncode != 0
    assert address in result.stderr


def test_two_caches_do_not_share_a_store(
    ground: Ground, plain_origin: xrootd.Origin, cache_of: Callable[..., Forebay]
) -> None:
    cache = cache_of(plain_origin.url)
    arguments = ["--listen", "127.0.0.1:0", "--origin", plain_origin.url, "--store", str(cache.data)]
    result = forebay.run(ground, "serve", *arguments)
    assert result.returncode != 0
    assert str(cache.data) in result.stderr


def test_admin_port_serves_metrics_and_health(plain_origin: xrootd.Origin, cache_of: Callable[..., Forebay]) -> None:
    cache = cache_of(plain_origin.url)
    for path in ("/healthz", "/readyz"):
        with urllib.request.urlopen(cache.admin_url + path, timeout=10) as answer:
            assert answer.status == 200
    with pytest.raises(urllib.error.HTTPError) as missing:
        urllib.request.urlopen(cache.admin_url + "/nothing", timeout=10)
    assert missing.value.code == 404
    with urllib.request.urlopen(cache.admin_url + "/metrics", timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        text = answer.read().decode()
    metrics = parse(text)
    assert metrics.total("forebay_budget_bytes") == 64 << 20
    for name in ("forebay_client_bytes", "forebay_client_requests", "forebay_open_handles", "forebay_connections"):
        assert f"# TYPE {name} " in text


def test_metrics_follow_requests_and_handles(
    plain_origin: xrootd.Origin, cache_of: Callable[..., Forebay], patterns: dict[str, Pattern]
) -> None:
    cache = cache_of(plain_origin.url)
    with cache.client() as client:
        handle = client.open(PATH)
        client.read(handle, 0, 1000).ok()
        during = cache.metrics()
        assert during.total("forebay_open_handles") == 1
        assert during.total("forebay_connections") == 1
        assert during.total("forebay_client_requests_total") >= 2
        assert during.total("forebay_origin_requests_total") >= 2
        assert during.total("forebay_origin_bytes_total", origin=plain_origin.address) == during.origin_bytes
        client.close_file(handle).ok()
        until(lambda: cache.metrics().total("forebay_open_handles") == 0, "the handle is counted down")
    assert patterns[PATH].size > during.origin_bytes >= 1000


def test_access_log_has_a_line_for_each_close(plain_origin: xrootd.Origin, cache_of: Callable[..., Forebay]) -> None:
    cache = cache_of(plain_origin.url)
    with cache.client() as client:
        handle = client.open(PATH)
        client.read(handle, 0, 1000).ok()
        client.close_file(handle).ok()
    cache.stop()
    lines = [line for line in cache.process.output().splitlines() if PATH in line and "access" in line]
    assert len(lines) == 1
    assert "tester" in lines[0]
    assert plain_origin.address in lines[0]
