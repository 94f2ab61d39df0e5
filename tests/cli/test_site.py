"""The documentation site: built by `make site`, searchable, every document reached from its first page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest

from harness.ground import REPOSITORY, Ground, MissingProgram, program

BUILD_SECONDS = 300
LINK = re.compile(r'<a [^>]*?href="([^"]+)"')
LOADED = re.compile(
    r'<(?:script|img|iframe)[^>]* src="([^"]+)"|<link[^>]* rel="(?:stylesheet|icon)"[^>]*href="([^"]+)"'
)


def mkdocs() -> Path:
    """The program that builds the site."""
    path = REPOSITORY / ".venv-site/bin/mkdocs"
    if not path.is_file():
        raise MissingProgram(f"{path} does not exist: run `make setup`")
    return path


@pytest.fixture(scope="module")
def site(ground: Ground) -> Path:
    """The directory with `pages` and `html` of a built site."""
    assert mkdocs()
    target = ground.directory("site")
    command = [str(program("make")), "--no-print-directory", "READY=1", "site", f"SITE={target}"]
    built = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return target


def documents() -> list[str]:
    """The pages of all documents."""
    sources = [*(REPOSITORY / "docs").glob("*.md"), *(REPOSITORY / "docs/decisions").glob("*.md")]
    return [str(source.relative_to(REPOSITORY).with_suffix(".html")) for source in sources]


def test_every_document_is_reached_from_the_first_page(site: Path) -> None:
    html = site / "html"
    found, waiting = {"index.html"}, ["index.html"]
    while waiting:
        page = waiting.pop()
        for link in LINK.findall((html / page).read_text()):
            target = urljoin(page, urlsplit(link).path)
            if urlsplit(link).scheme or not target.endswith(".html") or target in found:
                continue
            assert (html / target).is_file(), f"{page} links {link}"
            found.add(target)
            waiting.append(target)
    missing = {str(path.relative_to(html)) for path in html.rglob("*.html")} - found - {"404.html"}
    assert missing == set()
    assert len(documents()) > 50
    assert set(documents()) <= found


def test_all_documents_are_in_the_search_index(site: Path) -> None:
    index = json.loads((site / "html/search/search_index.json").read_text())
    texts: dict[str, str] = {}
    for entry in index["docs"]:
        page = entry["location"].partition("#")[0]
        texts[page] = texts.get(page, "") + entry["title"] + entry["text"]
    assert set(documents()) <= texts.keys()
    assert "shutdown_time_max" in texts["docs/configuration.html"]
    assert "hour by hour" in texts["docs/migration.html"]


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    pages = list((site / "html").rglob("*.html"))
    loaded = {first or second for page in pages for first, second in LOADED.findall(page.read_text())}
    assert loaded
    assert not [address for address in loaded if urlsplit(address).netloc]


@pytest.mark.parametrize("link", ["absent.md", "admin.md#no-such-heading"])
def test_a_broken_link_fails_the_build(link: str, site: Path, ground: Ground) -> None:
    copy = ground.directory("broken-site")
    pages = shutil.copytree(site / "pages", copy / "pages")
    with (pages / "docs/trace.md").open("a") as page:
        page.write(f"\n[broken]({link})\n")
    env = {**os.environ, "SITE_PAGES": str(pages), "SITE_OUTPUT": str(copy / "html")}
    command = [str(mkdocs()), "build", "--strict", "--config-file", str(REPOSITORY / "deploy/site/mkdocs.yml")]
    built = subprocess.run(command, env=env, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    assert built.returncode != 0
    assert link.partition("#")[0] in built.stderr
