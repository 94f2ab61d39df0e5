"""Failing origins are reported to operators: once in the log, and in the status until they answer again."""

from __future__ import annotations

import socket
import time

from harness.admin import Site
from harness.forebay import run
from harness.ground import Ground
from harness.scripted import ScriptedOrigin
from harness.waiting import until
from harness.wire import Error

from .conftest import PATH

# Far below what five attempts at a silent server with their pauses take.
COMMAND_SECONDS = 30.0


def lines_with(site: Site, text: str) -> list[str]:
    """The lines of the log with a text."""
    return [line for line in site.server.process.output().splitlines() if text in line]


def test_failing_origin_is_logged_once_and_shown_until_it_answers_again(ground: Ground, origin: ScriptedOrigin) -> None:
    settings = {"export": [{"path": "/", "origins": [origin.url]}], "origin": {"attempts": 1}}
    with Site(ground, settings) as site, site.server.client() as client:
        assert client.stat(PATH).error is None
        assert site.get("/status")["failing_origins"] == []
        origin.listener.refuse()
        origin.listener.drop_connections()
        for number in range(5):
            failed = client.stat(f"/none{number}")
            assert failed.error in (Error.NO_SERVER, Error.IO_ERROR), failed.error_text
        (failing,) = site.get("/status")["failing_origins"]
        assert failing["server"] == origin.url.removeprefix("root://")
        assert "refused" in failing["problem"]
        assert f"{failing['server']} FAILS since" in site.command("status").stdout
        assert site.server.metrics().total("forebay_origins_failing") == 1
        (line,) = lines_with(site, "an origin fails")
        assert "WARN" in line
        assert not lines_with(site, "an origin answers again")
        origin.listener.listen()
        until(lambda: client.stat(PATH).error is None, "the origin answers")
        assert site.get("/status")["failing_origins"] == []
        (line,) = until(lambda: lines_with(site, "an origin answers again"), "its recovery is logged")
        assert "INFO" in line


def test_origin_whose_name_does_not_resolve_is_named_at_start(ground: Ground) -> None:
    with Site(ground, {"export": [{"path": "/", "origins": ["root://no-such-host.invalid"]}]}) as site:
        (line,) = until(lambda: lines_with(site, "cannot be resolved"), "the warning")
        assert "no-such-host.invalid:1094" in line
        assert "WARN" in line


def test_commands_give_up_at_the_first_attempt_without_an_answer(ground: Ground) -> None:
    with socket.socket() as silent, socket.socket() as unused:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        unused.bind(("127.0.0.1", 0))
        servers = {
            f"127.0.0.1:{silent.getsockname()[1]}": "did not log us in within 10s",
            f"127.0.0.1:{unused.getsockname()[1]}": "Connection refused",
            "no-such-host.invalid": "cannot be resolved",
        }
        for server, problem in servers.items():
            for command in (["stat"], ["get", "--output", "-"]):
                begun = time.monotonic()
                done = run(ground, *command, f"root://{server}//file")
                assert time.monotonic() - begun < COMMAND_SECONDS
                assert done.returncode == 1
                assert problem in done.stderr
