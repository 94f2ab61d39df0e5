"""Stock clients authenticate with shared secrets, or state a name, and have the rights of their grants."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import forebay
from harness.clients import ClientFailed, fetch
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground, program
from harness.process import give_to_service

PATH = "/sizes/many-blocks.bin"


def keytab(ground: Ground, user: str) -> Path:
    """A keytab as the stock program makes it."""
    path = ground.directory("keytab") / "sss.keytab"
    argv: list[str | Path] = [program("xrdsssadmin"), "-u", user, "-g", "users", "-k", "test", "add", path]
    subprocess.run(argv, input=b"y\n", capture_output=True, timeout=60, check=True)
    path.chmod(0o600)
    return path


def for_server(ground: Ground, secrets: Path) -> Path:
    """A copy that only an unprivileged server can read."""
    copy = ground.directory("keytab-of-server") / "sss.keytab"
    copy.touch(mode=0o600)
    copy.write_bytes(secrets.read_bytes())
    return give_to_service(copy)


@pytest.mark.parametrize("client", ["xrdcp", "xrdfs-cat", "pyxrootd"])
def test_shared_secret_reads_every_byte_and_another_one_nothing(
    client: str,
    serve: Callable[[Mapping[str, Any]], Forebay],
    data: Path,
    ground: Ground,
    patterns: dict[str, Pattern],
) -> None:
    secrets = keytab(ground, "ann")
    server = serve(
        {
            "export": [{"path": "/", "directory": str(data)}],
            "authentication": {"methods": ["sss"], "keytab": str(for_server(ground, secrets))},
            "grant": [{"path": "/", "rights": ["read"], "user": "ann"}],
        }
    )
    url = f"root://127.0.0.1:{server.port}/{PATH}"
    assert_same(fetch(client, ground, url, {"XrdSecSSSKT": str(secrets)}), patterns[PATH].all(), client)
    with pytest.raises(ClientFailed):
        fetch(client, ground, url, {"XrdSecSSSKT": str(keytab(ground, "ann"))})


def test_word_of_a_client_counts_only_where_a_rule_says_so(
    serve: Callable[[Mapping[str, Any]], Forebay], data: Path, ground: Ground, patterns: dict[str, Pattern]
) -> None:
    grants = [{"path": "/", "rights": ["read"], "user": "*"}, {"path": "/sizes", "rights": ["read"], "user": "*"}]
    for methods, is_read in (([], False), (["unix"], True)):
        named = {"methods": methods} if methods else {}
        server = serve(
            {
                "export": [{"path": "/", "directory": str(data)}],
                "authentication": {"methods": ["unix"]},
                "grant": [{**grant, **named} for grant in grants],
            }
        )
        url = f"root://127.0.0.1:{server.port}/{PATH}"
        if is_read:
            assert_same(fetch("xrdcp", ground, url), patterns[PATH].all(), "unix")
        else:
            with pytest.raises(ClientFailed, match=r"\[3010\]"):
                fetch("xrdcp", ground, url)


def test_check_config_reports_secrets_that_others_can_read(data: Path, ground: Ground) -> None:
    secrets = for_server(ground, keytab(ground, "ann"))
    configuration = {
        "export": [{"path": "/", "directory": str(data)}],
        "authentication": {"methods": ["sss"], "keytab": str(secrets)},
        "grant": [{"path": "/", "rights": ["read"], "user": "ann"}],
    }
    file = str(forebay.write_configuration(ground, configuration))
    assert forebay.run(ground, "check-config", file).returncode == 0
    secrets.chmod(0o644)
    result = forebay.run(ground, "check-config", file)
    assert result.returncode != 0
    assert str(secrets) in result.stderr
    assert "chmod 640" in result.stderr
