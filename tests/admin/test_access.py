"""Access control of the administration API."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from harness import forebay
from harness.admin import TOKEN, Site
from harness.forebay import Forebay
from harness.ground import Ground
from harness.process import as_root, service_ids

STATUS = "/api/v1/status"
CALLERS = 16
CALLS_EACH = 20
STRANGER = 4711


def test_the_token_opens_tcp_and_nothing_else_does(site: Site) -> None:
    assert site.call("GET", STATUS, over_tcp=True, token=TOKEN).status == 200
    for token in (None, "wrong", TOKEN[:-1], TOKEN + "0"):
        refused = site.call("GET", STATUS, over_tcp=True, token=token)
        assert (refused.status, refused.problem) == (401, "unauthorized")
        assert refused.headers["www-authenticate"] == "Bearer"


def test_a_replaced_token_counts_at_once_and_a_missing_or_exposed_one_opens_nothing(site: Site) -> None:
    other = "f" * 32
    site.put_token(other)
    assert site.call("GET", STATUS, over_tcp=True, token=TOKEN).status == 401
    assert site.call("GET", STATUS, over_tcp=True, token=other).status == 200
    site.put_token(other, mode=0o644)
    exposed = site.call("GET", STATUS, over_tcp=True, token=other)
    assert (exposed.status, exposed.problem) == (503, "unavailable")
    assert str(site.token_file) not in exposed.json["detail"]
    site.token_file.unlink()
    assert site.call("GET", STATUS, over_tcp=True, token=other).status == 503
    assert site.call("GET", STATUS).status == 200


def test_metrics_and_probes_stay_open(site: Site) -> None:
    for path in ("/metrics", "/healthz", "/readyz"):
        assert site.call("GET", path, over_tcp=True).status == 200
        assert site.call("GET", path).status == 200


def test_the_socket_is_its_owners(site: Site) -> None:
    assert stat.S_IMODE(site.socket.stat().st_mode) == 0o600
    site.server.stop()
    assert not site.socket.exists()


def test_a_group_may_use_the_socket_and_strangers_may_not(ground: Ground) -> None:
    data = ground.directory("data")
    ids = service_ids()
    friends = os.getgid() if ids is None else ids[1]
    configuration = {"export": [{"directory": str(data)}], "admin": {"socket_group": str(friends)}}
    with Site(ground, configuration) as site:
        mode = site.socket.stat()
        assert (stat.S_IMODE(mode.st_mode), mode.st_gid) == (0o660, friends)

        def status_as(group: int) -> int:
            become = ["setpriv", f"--reuid={STRANGER}", f"--regid={group}", "--clear-groups"]
            status = [str(ground.forebay), "status", "--admin", str(site.socket)]
            return subprocess.run(as_root(*become, *status), capture_output=True, check=False).returncode

        assert status_as(friends) == 0
        assert status_as(STRANGER) == 4


def test_without_token_and_socket_the_api_is_off(ground: Ground, forebay_origin: Forebay) -> None:
    refused = forebay.run(ground, "status", "--admin", forebay_origin.admin_url)
    assert refused.returncode == 4
    assert "set admin.token_file, or admin.socket" in refused.stderr


def test_commands_name_a_remedy_when_access_is_denied_or_no_server_answers(site: Site) -> None:
    url = site.server.admin_url
    without = forebay.run(site.ground, "status", "--admin", url)
    assert (without.returncode, "--token-file" in without.stderr) == (4, True)
    with_token = forebay.run(site.ground, "status", "--admin", url, "--token-file", str(site.token_file))
    assert with_token.returncode == 0, with_token.stderr
    absent = forebay.run(site.ground, "status", "--admin", str(site.directory / "absent.sock"))
    assert absent.returncode == 3
    assert "is it running" in absent.stderr
    assert forebay.run(site.ground, "status", "--config", str(site.configuration)).returncode == 0
    assert forebay.run(site.ground, "status", "--admin", "ftp://x").returncode == 2


def test_many_callers_at_once_are_all_answered(site: Site) -> None:
    def call_often(over_tcp: bool) -> set[int]:
        return {site.call("GET", STATUS, over_tcp=over_tcp, token=TOKEN).status for _ in range(CALLS_EACH)}

    with ThreadPoolExecutor(CALLERS) as pool:
        seen = set().union(*pool.map(call_often, [number % 2 == 0 for number in range(CALLERS)]))
    assert seen == {200}


def test_a_wrong_token_file_is_refused_at_the_start(ground: Ground) -> None:
    data = ground.directory("data")
    short = ground.directory("token") / "token"
    short.write_text("short")
    short.chmod(0o600)
    configuration = {
        "admin": {"listen": "127.0.0.1:0", "token_file": str(short)},
        "export": [{"directory": str(data)}],
    }
    refused = forebay.run(ground, "check-config", str(forebay.write_configuration(ground, configuration)))
    assert refused.returncode == 2
    assert "openssl rand" in refused.stderr, sys.stderr
