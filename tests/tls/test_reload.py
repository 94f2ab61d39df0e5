"""A certificate is replaced while the server runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.clients import ClientFailed, fetch
from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.pki import Credential, Grid
from harness.process import give_to_service
from harness.waiting import until

PATH = "/sizes/many-blocks.bin"
NOTICED_WITHIN = 30.0
"""The files are looked at every five seconds."""


def replace(old: Credential, new: Credential) -> None:
    """Puts a new certificate and key in the place of the old ones, each at once as a whole."""
    for source, target in ((new.key, old.key), (new.certificate, old.certificate)):
        beside = target.with_suffix(".new")
        shutil.copyfile(source, beside)
        beside.chmod(0o400)
        give_to_service(beside)
        os.replace(beside, target)


def is_accepted(server: Forebay, ground: Ground, grid: Grid, path: str = PATH) -> bool:
    try:
        fetch("forebay-get", ground, f"roots://{server.address}/{path}", grid.environment())
    except ClientFailed:
        return False
    return True


def test_a_new_certificate_is_used_without_a_restart(
    export: Callable[..., Forebay], ground: Ground, grid: Grid, patterns: dict[str, Pattern]
) -> None:
    used = grid.host("DNS:old.example")
    server = export(used)
    with pytest.raises(ClientFailed, match=r"old\.example"):
        fetch("forebay-get", ground, f"roots://{server.address}/{PATH}", grid.environment())
    replace(used, grid.host())
    until(lambda: is_accepted(server, ground, grid), "the new certificate is used", within=NOTICED_WITHIN)
    got = fetch("xrdcp", ground, f"roots://{server.address}/{PATH}", grid.environment())
    assert_same(got, patterns[PATH].all(), "with the new certificate")


def test_a_bad_new_certificate_leaves_the_old_one_in_use(
    export: Callable[..., Forebay], ground: Ground, grid: Grid, patterns: dict[str, Pattern], data: Path
) -> None:
    used = grid.host()
    server = export(used)
    used.certificate.write_text("not a certificate")

    def has_noticed() -> bool:
        assert is_accepted(server, ground, grid, "/sizes/one-byte.bin")
        return "certificates not reloaded" in server.process.output()

    until(has_noticed, "the bad certificate is noticed", within=NOTICED_WITHIN)
    got = fetch("xrdcp", ground, f"roots://{server.address}/{PATH}", grid.environment())
    assert_same(got, patterns[PATH].all(), "with the old certificate")
