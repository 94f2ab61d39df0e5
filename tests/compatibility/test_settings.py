"""Settings of earlier releases are known, or accepted with a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import forebay
from harness.ground import Ground

RELEASES = sorted((Path(__file__).parent / "settings").glob("*.txt"))


@pytest.mark.parametrize("settings", RELEASES, ids=lambda path: path.stem)
def test_no_setting_of_a_release_is_unknown(ground: Ground, settings: Path) -> None:
    """Each setting has a value of a wrong type, so that every known one is reported; all reports come at once."""
    tables: dict[str, list[str]] = {}
    for line in settings.read_text().splitlines():
        table, key = line.split()
        tables.setdefault(table, []).append(key)
    lines = [line for table, keys in tables.items() for line in (table, *(f"{key} = {{}}" for key in keys))]
    lines.append("of_no_release = {}")
    config = ground.directory("configuration") / "forebay.toml"
    config.write_text("\n".join(lines) + "\n")
    reports = forebay.run(ground, "check-config", str(config)).stderr.splitlines()
    unknown = [report for report in reports if "unknown" in report]
    assert len(unknown) == 1, unknown
    assert "of_no_release" in unknown[0]
    named = sum(len(keys) for keys in tables.values())
    assert named > 200
    assert len(reports) >= named
