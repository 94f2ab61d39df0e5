"""`forebay doctor` finds problems of a set-up, names remedies, and has an exit status for monitoring."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness import forebay
from harness.forebay import Forebay
from harness.ground import Ground
from harness.pki import Credential, Grid, ca_directory
from harness.process import give_to_service
from harness.tokens import ServedIssuer
from harness.voms import Organization
from harness.waiting import until
from harness.xrootd import Origin

Configuration = dict[str, Any]
EXIT_STATUS = {"ok": 0, "warn": 1, "fail": 2}


@dataclass
class Site:
    """A configuration that uses everything, with files of its own that a test may break."""

    ground: Ground
    grid: Grid
    configuration: Configuration
    certificates: Path
    credential: Credential
    vomsdir: Path

    def findings(self, *arguments: str) -> list[dict[str, str]]:
        """The findings of the doctor; the exit status must agree."""
        path = forebay.write_configuration(self.ground, self.configuration)
        result = forebay.run(self.ground, "doctor", "--config", str(path), "--format", "json", *arguments)
        report = json.loads(result.stdout)
        assert result.returncode == EXIT_STATUS[report["level"]], result.stderr
        findings: list[dict[str, str]] = report["findings"]
        assert all(finding["level"] == "ok" or finding["advice"] for finding in findings)
        return findings

    def of(self, check: str, *arguments: str) -> list[dict[str, str]]:
        """The findings of one check."""
        return [finding for finding in self.findings(*arguments) if finding["check"] == check]


@pytest.fixture
def site(ground: Ground, grid: Grid, data: Path) -> Site:
    """A set-up in which all is well."""
    certificates = ca_directory(ground, grid.root, grid.issuer)
    credential = grid.host("DNS:cache.test")
    vomsdir = ground.directory("vomsdir")
    shutil.copytree(Organization(ground, grid.issuer, "atlas").vomsdir, vomsdir, dirs_exist_ok=True)
    tls = {"certificate": str(credential.certificate), "key": str(credential.key), "ca_dir": str(certificates)}
    configuration = {
        "server": {"listen": ["127.0.0.1:0"], "host_name": "cache.test", "connections_max": 100},
        "export": [{"path": "/", "directory": str(data)}],
        "tls": tls,
        "memory": {"budget": "64MiB"},
        "authentication": {"methods": ["gsi"], "voms_dir": str(vomsdir)},
        "grant": [{"path": "/", "rights": ["read"], "vo": "atlas"}],
    }
    return Site(ground, grid, configuration, certificates, credential, vomsdir)


def worst(findings: list[dict[str, str]]) -> str:
    return max((finding["level"] for finding in findings), key=list(EXIT_STATUS).index)


def test_a_sound_set_up_has_no_findings(site: Site) -> None:
    findings = site.findings()
    assert worst(findings) == "ok", findings
    checks = {finding["check"] for finding in findings}
    assert checks == {"configuration", "certificate", "authority", "revocation list", "organization", "limit"}


def test_text_begins_with_a_summary(site: Site) -> None:
    path = forebay.write_configuration(site.ground, site.configuration)
    result = forebay.run(site.ground, "doctor", "--config", str(path))
    assert result.returncode == 0
    assert result.stdout.startswith("OK: 0 failures, 0 warnings, ")


def expired_certificate(site: Site) -> None:
    # With openssl a certificate of no days has ended as soon as it is made.
    made = site.grid.issuer.host("cache.test", "DNS:cache.test", days="0")
    shutil.copyfile(made.certificate, site.credential.certificate)
    shutil.copyfile(made.key, site.credential.key)


def certificate_that_ends_soon(site: Site) -> None:
    made = site.grid.issuer.host("cache.test", "DNS:cache.test", days="5")
    shutil.copyfile(made.certificate, site.credential.certificate)
    shutil.copyfile(made.key, site.credential.key)


def key_of_another_certificate(site: Site) -> None:
    shutil.copyfile(site.grid.issuer.host("other", "DNS:other").key, site.credential.key)


def key_that_others_can_read(site: Site) -> None:
    site.credential.key.chmod(0o644)


def certificate_of_another_host(site: Site) -> None:
    site.configuration["server"]["host_name"] = "elsewhere.test"


def authorities_without_its_own(site: Site) -> None:
    for file in site.certificates.glob("*.0"):
        file.unlink()
    name = site.grid.stranger.hashes()
    shutil.copyfile(site.grid.stranger.certificate, site.certificates / f"{name}.0")


def no_authority(site: Site) -> None:
    for file in site.certificates.iterdir():
        file.unlink()


def authority_under_another_name(site: Site) -> None:
    name = site.grid.issuer.hashes()
    (site.certificates / f"{name}.0").rename(site.certificates / "00000000.0")


def authority_that_is_none(site: Site) -> None:
    (site.certificates / "11111111.0").write_text("no certificate")


def missing_signing_policy(site: Site) -> None:
    site.configuration["authentication"]["signing_policy"] = "require"
    next(site.certificates.glob("*.signing_policy")).unlink()


def missing_list(site: Site) -> None:
    next(site.certificates.glob("*.r0")).unlink()


def missing_list_that_is_required(site: Site) -> None:
    site.configuration["tls"]["crl"] = "require"
    next(site.certificates.glob("*.r0")).unlink()


def organization_that_cannot_be_read(site: Site) -> None:
    (site.vomsdir / "atlas" / "broken.lsc").write_text("not a name\n")


def no_organization(site: Site) -> None:
    shutil.rmtree(site.vomsdir)
    site.configuration["authentication"]["voms"] = "require"


def keytab_that_others_can_read(site: Site) -> None:
    keytab = site.ground.directory("keytab") / "keytab"
    keytab.write_text("")
    keytab.chmod(0o644)
    site.configuration["authentication"].update(methods=["gsi", "sss"], keytab=str(keytab))


def keys_of_an_issuer_that_are_none(site: Site) -> None:
    keys = site.ground.directory("keys") / "keys.json"
    keys.write_text("{}")
    site.configuration["issuer"] = [{"url": "https://issuer.test", "keys": str(keys)}]


def more_connections_than_descriptors(site: Site) -> None:
    site.configuration["server"]["connections_max"] = 1_000_000


def buffers_of_the_whole_memory(site: Site) -> None:
    site.configuration["memory"]["budget"] = "1TiB"


def store_that_cannot_be_made(site: Site) -> None:
    site.configuration["store"] = {"path": "/dev/null/store"}


def store_accessible_to_all_users(site: Site) -> None:
    store = site.ground.directory("store")
    store.chmod(0o755)
    site.configuration["store"] = {"path": str(store)}


def setting_that_is_none(site: Site) -> None:
    site.configuration["server"]["listen"] = ["everywhere"]


@pytest.mark.parametrize(
    ("broken", "level", "check", "found"),
    [
        (expired_certificate, "fail", "certificate", "expired"),
        (certificate_that_ends_soon, "warn", "certificate", "expires soon"),
        (key_of_another_certificate, "fail", "certificate", "key"),
        (key_that_others_can_read, "fail", "certificate", "can be read by others"),
        (certificate_of_another_host, "warn", "certificate", "is not that of the host elsewhere.test"),
        (authorities_without_its_own, "warn", "certificate", "no trusted certification authority"),
        (no_authority, "fail", "authority", "contains no PEM certificate"),
        (authority_under_another_name, "warn", "authority", "must be named"),
        (authority_that_is_none, "warn", "authority", "contains no PEM certificate"),
        (missing_signing_policy, "fail", "authority", "no signing policy"),
        (missing_list, "warn", "revocation list", "1 of 2 authorities"),
        (missing_list_that_is_required, "fail", "revocation list", "1 of 2 authorities"),
        (organization_that_cannot_be_read, "warn", "organization", ""),
        (no_organization, "fail", "organization", "contains no organization"),
        (keytab_that_others_can_read, "fail", "secret", "can be read by others"),
        (keys_of_an_issuer_that_are_none, "fail", "issuer", "not a JSON object"),
        (more_connections_than_descriptors, "warn", "limit", "connections need"),
        (buffers_of_the_whole_memory, "warn", "limit", "memory.budget is 1.0 TiB"),
        (store_that_cannot_be_made, "fail", "configuration", "is not a directory"),
        (store_accessible_to_all_users, "warn", "disk", "to all users"),
        (setting_that_is_none, "fail", "configuration", "is not an address"),
    ],
)
def test_broken_parts_are_found(broken: Callable[[Site], None], level: str, check: str, found: str, site: Site) -> None:
    broken(site)

    def is_found() -> bool:
        findings = site.of(check, "--offline")
        return any(finding["level"] == level and found in finding["found"] for finding in findings)

    # A certificate of no days takes a second to end.
    until(is_found, found)


def test_outdated_list_is_found(site: Site) -> None:
    file = site.certificates / f"{site.grid.issuer.hashes()}.r0"
    file.write_text(site.grid.issuer.revocation_list(days=0))

    def is_found() -> bool:
        found = [finding for finding in site.of("revocation list", "--offline") if finding["level"] == "warn"]
        return any("should have been replaced" in finding["found"] for finding in found)

    until(is_found, "the list is outdated")


def test_issuers_are_asked_and_clocks_compared(site: Site, ground: Ground, host: Credential, grid: Grid) -> None:
    with ServedIssuer(ground, host) as issuer:
        site.configuration["issuer"] = [{"url": issuer.url, "ca": str(grid.directory)}]
        assert [finding["level"] for finding in site.of("issuer")] == ["ok"]
        assert [finding["level"] for finding in site.of("clock")] == ["ok"]
        assert site.of("issuer", "--offline") == []
    assert [finding["level"] for finding in site.of("issuer")] == ["fail"]


def test_origins_are_asked(site: Site, plain_origin: Origin, ground: Ground) -> None:
    closed = f"root://127.0.0.1:{ground.free_port()}"
    site.configuration["store"] = {"path": str(ground.directory("store"))}
    for origins, levels in [
        ([plain_origin.url], ["ok"]),
        ([closed], ["fail"]),
        ([plain_origin.url, closed], ["ok", "warn"]),
        ([closed, f"root://127.0.0.1:{ground.free_port()}"], ["fail", "fail"]),
        ([plain_origin.url.replace("root:", "roots:")], ["fail"]),
    ]:
        site.configuration["export"] = [{"path": "/", "origins": origins}]
        assert [finding["level"] for finding in site.of("origin")] == levels, origins
    assert site.of("origin", "--offline") == []


def test_ports_are_free_or_of_a_running_server(
    site: Site, cache_of: Callable[..., Forebay], plain_origin: Origin
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        site.configuration["server"]["listen"] = [f"127.0.0.1:{other.getsockname()[1]}"]
        assert [finding["level"] for finding in site.of("port", "--offline")] == ["warn"]
    running = cache_of(plain_origin.url)
    site.configuration["server"]["listen"] = [running.address]
    site.configuration["store"] = {"path": str(running.data)}
    assert [finding["level"] for finding in site.of("port", "--offline")] == ["ok"]
    running.stop()
    assert [finding["level"] for finding in site.of("port", "--offline")] == ["ok"]


def test_bundle_has_what_support_needs_and_no_secret(ground: Ground, data: Path) -> None:
    """Versions, findings, configuration, status, metrics and log are in one private file; secrets are not."""
    token = ground.directory("secrets") / "token"
    token.write_text("hunter2-0123456789abcdef0123456789\n")
    token.chmod(0o600)
    give_to_service(token)
    configuration = {
        "server": {"listen": ["127.0.0.1:0"]},
        "export": [{"path": "/", "directory": str(data)}],
        "admin": {"socket": str(ground.directory("admin") / "admin.sock"), "token_file": str(token)},
    }
    log = ground.directory("log") / "log"
    log.write_text("the line before the failure\n")
    report = ground.directory("report") / "report.txt"
    config = forebay.write_configuration(ground, forebay.complete(configuration, ground.directory("store")))
    config.write_text(config.read_text() + "# password: hunter2\n")
    with Forebay(ground, ["--config", str(config)]):
        arguments = ["doctor", "--config", str(config), "--offline", "--bundle", str(report), "--log", str(log)]
        result = forebay.run(ground, *arguments)
        assert result.returncode in EXIT_STATUS.values(), result.stderr
        again = forebay.run(ground, *arguments)
    text = report.read_text()
    assert report.stat().st_mode & 0o777 == 0o600
    for part in [
        "forebay: 0.",
        "kernel: ",
        str(data),
        '"uptime_seconds"',
        "forebay_budget_bytes",
        "the line before the failure",
    ]:
        assert part in text, (part, text)
    assert "===== Findings =====" in text
    assert "not available" not in text, text
    assert "hunter2" not in text
    assert again.returncode == 1
    assert "cannot create the report" in again.stderr
    assert report.read_text() == text


def test_bundle_of_a_server_that_does_not_run(ground: Ground) -> None:
    """Of a broken configuration and a stopped server the report still has all that there is."""
    config = ground.directory("configuration") / "forebay.toml"
    config.write_text('[server]\nlisten = "nowhere"\n[index\n')
    report = ground.directory("report") / "report.txt"
    result = forebay.run(ground, "doctor", "--config", str(config), "--bundle", str(report), "--log", "/absent")
    assert result.returncode == EXIT_STATUS["fail"]
    text = report.read_text()
    assert "not available: it is not TOML" in text
    assert "FAIL configuration" in text
    assert "No such file" in text
