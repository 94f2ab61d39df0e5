"""The documents name commands, options and settings that exist."""

from __future__ import annotations

import re

from harness import forebay
from harness.ground import REPOSITORY, Ground

DOCUMENTS = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
CODE = re.compile(r"`([^`\n]+)`")
# A file of the index, values of the chart, files, and a directive of XRootD.
NO_SETTINGS = {"index.replaced", "store.size", "cluster.redirectors", "store.conf", "cluster.yml", "http.desthttps"}


def mentions() -> list[tuple[str, str]]:
    """Every piece of code in a text, with its document; lines of blocks of code are pieces, too."""
    found = []
    for document in DOCUMENTS:
        parts = re.split(r"^```.*$", document.read_text(), flags=re.MULTILINE)
        for text, is_block in zip(parts, [False, True] * len(parts), strict=False):
            pieces = [line.split(" #")[0] for line in text.splitlines()] if is_block else CODE.findall(text)
            found += [(document.name, piece.strip()) for piece in pieces]
    return found


def commands(ground: Ground, *parents: str) -> set[str]:
    """The commands below a command, from its help."""
    text = forebay.run(ground, *parents, "--help").stdout
    _, found, listed = text.partition("\nCommands:\n")
    return set(re.findall(r"^  ([a-z-]+)(?:\s|$)", listed.split("\n\n")[0], re.MULTILINE)) if found else set()


def test_commands_and_options_exist(ground: Ground) -> None:
    """`forebay COMMAND --option` of a document is a command that has the option."""
    known = commands(ground)
    below = {name: commands(ground, name) for name in known}
    helps: dict[tuple[str, ...], str] = {}
    wrong, options_seen = [], 0
    for document, piece in mentions():
        used = re.match(r"(?:sudo (?:-u \S+ )?)?forebay ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?(.*)", piece)
        if used is None:
            continue
        command, second, rest = used.groups()
        if command not in known:
            wrong.append((document, piece))
            continue
        place = (command, second) if second in below[command] else (command,)
        if place not in helps:
            helps[place] = forebay.run(ground, *place, "--help").stdout
        # Text after a pipe or semicolon belongs to another program.
        for option in re.findall(r"(?<=[ \[(])--[a-z][a-z0-9-]*", re.split(r"[|;&]", rest)[0]):
            options_seen += 1
            if not re.search(rf"{option}\b(?!-)", helps[place]):
                wrong.append((document, piece))
    assert not wrong, wrong
    assert len(helps) > 15
    assert options_seen > 30


def test_settings_exist() -> None:
    """`table.key` of a document is in the list of all settings."""
    settings: dict[str, set[str]] = {}
    for section in re.split(r"^## ", (REPOSITORY / "docs/configuration.md").read_text(), flags=re.MULTILINE)[1:]:
        table = re.match(r"`\[+([a-z_]+)\]+`", section)
        if table:
            settings[table[1]] = set(re.findall(r"^\| `([a-z0-9_]+)`", section, re.MULTILINE))
    assert len(settings) > 20
    named = [
        (document, table, key)
        for document, piece in mentions()
        for table, key in re.findall(r"^([a-z_]+)\.([a-z0-9_]+)\b(?![./(])", piece)
        if table in settings and f"{table}.{key}" not in NO_SETTINGS
    ]
    wrong = [name for name in named if name[2] not in settings[name[1]]]
    assert not wrong, wrong
    assert len(named) > 100
