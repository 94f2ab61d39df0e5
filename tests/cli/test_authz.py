"""`forebay authz explain` evaluates the grants as the server does."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import forebay
from harness.ground import Ground

GRANTS = [
    {"name": "ATLAS", "path": "/atlas", "rights": ["read", "list"], "vo": "atlas"},
    {"path": "/atlas/user", "rights": []},
    {"path": "/atlas/user/{user}", "rights": ["read"], "methods": ["unix"]},
]


@pytest.fixture(scope="module")
def configuration(ground: Ground) -> Path:
    """A configuration with a few grants."""
    export = [{"directory": str(ground.directory("exported"))}]
    return forebay.write_configuration(ground, {"export": export, "grant": GRANTS})


@pytest.mark.parametrize(
    ("who", "path", "reason", "is_allowed"),
    [
        (["--method", "gsi", "--attribute", "/atlas/Role=production"], "/atlas/f", 'allowed by rule 1 "ATLAS"', True),
        (["--method", "gsi", "--attribute", "/cms"], "/atlas/f", "denied: no rule matches", False),
        (["--method", "gsi", "--attribute", "/atlas"], "/atlas/user/ann/f", "denied by rule 2", False),
        (["--method", "unix", "--user", "ann"], "/atlas/user/ann/f", "allowed by rule 3", True),
        (["--method", "unix", "--user", "ann"], "/atlas/user/bob/f", "denied by rule 2", False),
        ([], "/elsewhere", "denied: no rule matches", False),
    ],
)
def test_decision_comes_with_its_reason(
    who: list[str], path: str, reason: str, is_allowed: bool, configuration: Path, ground: Ground
) -> None:
    result = forebay.run(ground, "authz", "explain", "--config", str(configuration), "--path", path, *who)
    assert reason in result.stdout, result.stderr
    assert (result.returncode == 0) == is_allowed
    assert len(result.stdout.splitlines()) == 2 + len(GRANTS)


@pytest.mark.parametrize(
    ("right", "reason"),
    [
        ("read", "allowed: without any [[grant]] all clients may read, list and stat"),
        ("admin", "denied: `admin` needs a [[grant]] that names it"),
    ],
)
def test_without_grants_all_may_read_and_none_administers(right: str, reason: str, ground: Ground) -> None:
    export = [{"directory": str(ground.directory("exported"))}]
    configuration = forebay.write_configuration(ground, {"export": export})
    arguments = ["authz", "explain", "--config", str(configuration), "--path", "/a", "--right", right]
    result = forebay.run(ground, *arguments)
    assert reason in result.stdout, result.stderr
    assert result.returncode == (0 if "allowed" in reason else 1)


def test_words_that_are_not_known_are_usage_errors(configuration: Path, ground: Ground) -> None:
    for flag, word in (("--right", "write"), ("--method", "krb5"), ("--attribute", "atlas")):
        arguments = ["authz", "explain", "--config", str(configuration), "--path", "/a", flag, word]
        result = forebay.run(ground, *arguments)
        assert result.returncode == 2, result.stdout
        assert word in result.stderr
