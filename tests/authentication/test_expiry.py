"""Unused files expire after a time that depends on their path and on their owner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness import xrootd
from harness.admin import Site
from harness.clients import fetch
from harness.content import Pattern, assert_same
from harness.ground import Ground
from harness.pki import Credential, Grid
from harness.tokens import TokenIssuer, token_file
from harness.waiting import until

OF_CMS, OF_ATLAS, EXEMPT = "/sizes/many-blocks.bin", "/sizes/block.bin", "/sizes/block-and-one.bin"


def test_files_expire_by_path_and_organization(
    ground: Ground,
    grid: Grid,
    host: Credential,
    issuer: TokenIssuer,
    plain_origin: xrootd.Origin,
    patterns: dict[str, Pattern],
) -> None:
    configuration: dict[str, Any] = {
        "export": [{"path": "/", "origins": [plain_origin.url]}],
        "tls": {"certificate": str(host.certificate), "key": str(host.key), "ca_dir": str(grid.directory)},
        "authentication": {"methods": ["ztn"]},
        "issuer": [{"url": issuer.url, "keys": str(issuer.keys), "audiences": ["https://cache.test"]}],
        "grant": [{"path": "/", "rights": ["read", "list"], "methods": ["token"], "scopes": "grant"}],
        "purge": {"interval": "100ms", "age_max": "1s"},
        "expiry": [
            {"path": "/sizes/**", "vo": "atlas", "unused": "never"},
            {"path": "/sizes/block-and-*", "unused": "never"},
            {"path": "/sizes/**", "vo": "c*", "unused": "1s"},
        ],
    }

    def read(path: str, group: str) -> None:
        environment = {**grid.environment(), "BEARER_TOKEN_FILE": str(token_file(ground, group))}
        url = f"roots://127.0.0.1:{site.server.port}/{path}"
        assert_same(fetch("xrdcp", ground, url, environment), patterns[path].all(), path)

    def kept(path: str) -> bool:
        return (site.store / Path(path[1:])).exists()

    with Site(ground, configuration) as site:
        atlas, cms = (issuer.token(**{"wlcg.groups": [f"/{name}/production"]}) for name in ("atlas", "cms"))
        read(OF_ATLAS, atlas)
        read(EXEMPT, cms)
        read(OF_CMS, cms)
        until(
            lambda: site.server.metrics().total("forebay_purged_files_total", reason="expired") == 1, "a file expires"
        )
        assert not kept(OF_CMS)
        assert kept(OF_ATLAS)
        assert kept(EXEMPT)
        assert "purged     expired: 1 files" in site.command("status").stdout
        assert site.server.metrics().total("forebay_purged_files_total", reason="age") == 0
        owners = {file["name"]: file["owner"] for file in site.get("/files")["files"]}
        assert owners == {OF_ATLAS: "atlas", EXEMPT: "cms"}
        read(OF_CMS, cms)
