"""The status page in a real browser."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import crc32c
import pytest
from playwright.sync_api import Browser, expect

from harness import clients
from harness.admin import TOKEN, Site
from harness.browser import Visit, chromium
from harness.content import Pattern
from harness.forebay import Forebay
from harness.ground import Ground
from harness.process import give_to_service
from harness.waiting import until

HOSTILE = "/store/user/ann/<img src=x onerror=alert(1)>&\"'.root"
FILE = "/store/mc/RunIISummer20/TTbar/NANOAODSIM/106X-v2/260000/f.root"
DATASET = "/TTbar/RunIISummer20-106X-v2/NANOAODSIM"
PAGES = [
    "/",
    "/files",
    f"/file?name={FILE}",
    "/origins",
    "/clients",
    "/disks",
    "/popularity?add=20",
    "/efficiency",
    "/jobs",
    "/configuration",
    "/login",
]
OPEN_PAGES = ["/", "/origins", "/disks", "/login"]
SERIES = 12
PAGE_BYTES_MAX = 60_000


def history(points: dict[int, float]) -> bytes:
    """A history on disk, with the same points at every resolution."""
    content = b"FBYHIST1"
    for _ in range(3):
        content += struct.pack("<I", len(points))
        for at, value in points.items():
            content += struct.pack(f"<QI{SERIES}f", at, 1, *[value] * SERIES)
    return content + struct.pack("<I", crc32c.crc32c(content))


@pytest.fixture(scope="module")
def began() -> int:
    """A full hour in the past, so that it is the begin of a step at every resolution."""
    now = int(time.time())
    return now - now % 3600


def job_report(ground: Ground) -> Path:
    """The report of `forebay efficiency` on two jobs, of which one has read from the cache."""
    directory = ground.directory("jobs")
    jobs, closes, report = (directory / name for name in ("jobs.csv", "closes.csv", "report.json"))
    jobs.write_text(
        "user,site,input,start,end,cpu\nann,T2_X,/a,1700000000,1700003600,2880\nann,T2_<i>,/b,1700010000,1700013600,1800\n"
    )
    closes.write_text(
        "time,path,read,hit,missed,user\n1700001000,/a/1,9000,9000,0,ann\n1700011000,/b/1,9000,0,9000,ann\n"
    )
    argv = [str(part) for part in (ground.forebay, "efficiency", "--json", "--jobs", jobs, closes)]
    with report.open("wb") as output:
        subprocess.run(argv, stdout=output, check=True)
    report.chmod(0o644)
    return report


@pytest.fixture(scope="module")
def page_site(ground: Ground, began: int) -> Iterator[Site]:
    """A cache with a past, of which clients have read two files."""
    source, store = ground.directory("page-origin"), ground.directory("page-store")
    for seed, path in enumerate((FILE, HOSTILE)):
        target = source / path[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        Pattern(1_000_000, seed).write(target)
    (store / ".forebay").mkdir()
    (store / ".forebay" / "history").write_bytes(history({began - 7200: 1e6, began - 3600: 5e6, began: 2e6}))
    give_to_service(store)
    with Forebay(ground, ["--listen", "127.0.0.1:0", "--export-dir", str(source)], name="page-origin") as origin:
        admin = {"hosts": ["cache.example"], "job_efficiency": str(job_report(ground))}
        configuration = {"export": [{"origins": [origin.url]}], "admin": admin}
        with Site(ground, configuration, store=store) as running:
            for path in (FILE, HOSTILE):
                clients.fetch("forebay-get", ground, running.server.file_url(path))
            until(lambda: len(running.get("/files")["files"]) == len((FILE, HOSTILE)), "the index has both files")
            yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all visits."""
    with chromium() as running:
        yield running


def test_every_page_is_drawn_under_its_policy(page_site: Site, browser: Browser) -> None:
    with Visit(browser, page_site.server.admin_url) as visit:
        visit.log_in(TOKEN)
        for path in PAGES:
            expect(visit.go(path).locator("main")).to_be_visible()
        page = visit.go("/disks")
        expect(page.locator("figure.chart .uplot").first).to_be_visible()
        page = visit.go("/")
        expect(page.locator("#live")).to_contain_text("live")
        expect(page.get_by_role("heading", name="Forebay is ready")).to_be_visible()
        expect(page.get_by_role("cell", name="NANOAODSIM").or_(page.get_by_text("NANOAODSIM"))).to_be_visible()


def test_a_foreign_script_is_blocked(page_site: Site, browser: Browser) -> None:
    visit = Visit(browser, page_site.server.admin_url)
    page = visit.go("/")
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))"
    )
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in error for error in visit.errors), visit.errors
    visit.context.close()


def test_live_values_arrive(page_site: Site, browser: Browser) -> None:
    with Visit(browser, page_site.server.admin_url) as visit:
        page = visit.go("/")
        expect(page.locator("#live")).to_contain_text("live")
        with page.expect_response(lambda answer: answer.url.endswith("/events")) as opened:
            page.reload()
        assert opened.value.headers["content-type"] == "text/event-stream"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible(page_site: Site, browser: Browser, scheme: Literal["light", "dark"]) -> None:
    with Visit(browser, page_site.server.admin_url, scheme=scheme, inspected=True) as visit:
        visit.log_in(TOKEN)
        for path in PAGES:
            visit.go(path)
            # Colours are all that a scheme changes.
            assert visit.violations([] if scheme == "light" else ["color-contrast"]) == [], path


def test_a_narrow_screen_needs_no_sideways_scrolling(page_site: Site, browser: Browser) -> None:
    with Visit(browser, page_site.server.admin_url, width=320) as visit:
        visit.log_in(TOKEN)
        for path in PAGES:
            page = visit.go(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= 320, path


def test_pages_are_complete_without_script(page_site: Site, browser: Browser) -> None:
    with Visit(browser, page_site.server.admin_url, script=False) as visit:
        visit.log_in(TOKEN)
        page = visit.go("/disks")
        line = page.locator("figure.chart svg path.line0").first
        assert len(re.findall("[ML]", line.get_attribute("d") or "")) >= 3
        visit.go("/files").get_by_label("Part of the name").fill("TTbar")
        page.get_by_role("button", name="Search").click()
        expect(page.get_by_role("link", name=FILE)).to_be_visible()
        expect(page.locator("tbody").first.locator("tr")).to_have_count(1)
        page.get_by_role("link", name=FILE).click()
        expect(page.get_by_role("heading", name=FILE)).to_be_visible()
        expect(page.get_by_role("img", name="100.0 % cached")).to_be_visible()


def test_popular_data_and_the_effect_of_more_disk_are_shown_without_script(
    ground: Ground, page_site: Site, browser: Browser
) -> None:
    # The curve begins with the server, which another test restarts.
    clients.fetch("forebay-get", ground, page_site.server.file_url(FILE))
    until(lambda: DATASET in [found["name"] for found in page_site.get("/sizing")["datasets"]], "the read is counted")
    with Visit(browser, page_site.server.admin_url, script=False) as visit:
        visit.log_in(TOKEN)
        page = visit.go("/popularity")
        expect(page.get_by_role("row", name=DATASET).get_by_role("img", name="% of the bytes")).to_be_visible()
        curve = page.get_by_role("img", name="Hit ratios by size of the cache")
        assert re.fullmatch(r"M[0-9. LM]+", curve.locator("path").first.get_attribute("d") or "")
        expect(page.get_by_role("region", name="Working set").locator("tbody tr")).to_have_count(4)
        expect(page.get_by_role("rowheader", name="(now)")).to_be_visible()
        page.get_by_label("Disk to add in TB").fill("20")
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_role("rowheader", name="(added)")).to_be_visible()
        expect(page.get_by_label("Disk to add in TB")).to_have_value("20")


def test_the_efficiency_of_jobs_is_that_of_the_report(page_site: Site, browser: Browser) -> None:
    with Visit(browser, page_site.server.admin_url) as visit:
        visit.log_in(TOKEN)
        page = visit.go("/efficiency")
        row = page.get_by_role("region", name="Sources").get_by_role("row", name="origin")
        # An hour with 50 % would have been 37.5 minutes with 80 %, and both jobs took two.
        for text in ("50.0 %", "0.4", "18.8 %"):
            expect(row).to_contain_text(text)
        expect(page.get_by_role("rowheader", name="T2_<i>, origin")).to_be_visible()


def test_the_keyboard_reaches_content_and_sorts_tables(page_site: Site, browser: Browser) -> None:
    with Visit(browser, page_site.server.admin_url) as visit:
        page = visit.go("/")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()


def test_names_of_files_are_text(page_site: Site, browser: Browser) -> None:
    with Visit(browser, page_site.server.admin_url) as visit:
        visit.log_in(TOKEN)
        for path in ("/files", "/clients", "/"):
            page = visit.go(path)
            assert page.locator("main img[src]").count() == 0
        visit.go("/files")
        page.get_by_role("link", name=HOSTILE).click()
        expect(page.get_by_role("heading", name=HOSTILE)).to_be_visible()
        page = visit.go("/files?search=%22%3E%3Cimg+src%3Dx%3E")
        assert page.locator("main img[src]").count() == 0
        expect(page.get_by_role("searchbox")).to_have_value('"><img src=x>')


def test_files_and_users_are_shown_after_a_login_only(page_site: Site, browser: Browser) -> None:
    for path in PAGES:
        answer = page_site.call("GET", path, over_tcp=True)
        assert answer.status == (200 if path in OPEN_PAGES else 401), path
        assert FILE not in answer.body.decode()
    with Visit(browser, page_site.server.admin_url) as visit:
        visit.log_in(TOKEN)
        (cookie,) = visit.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert TOKEN not in cookie["value"]
        page = visit.go("/files")
        expect(page.get_by_role("link", name=FILE)).to_be_visible()
        page.get_by_role("button", name="Log out").click()
        page.get_by_role("link", name="Log in").wait_for()
    number = {"Cookie": f"forebay={cookie['value']}"}
    assert page_site.call("GET", "/files", over_tcp=True, headers=number).status == 401, "the session has ended"


def test_a_wrong_token_opens_nothing(page_site: Site) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    refused = page_site.call("POST", "/login", b"token=wrong", over_tcp=True, headers=form)
    assert (refused.status, "set-cookie" in refused.headers) == (401, False)
    long = page_site.call("POST", "/login", b"token=" + b"x" * 20_000, over_tcp=True, headers=form)
    assert long.status == 413


def test_the_page_changes_nothing(page_site: Site) -> None:
    for method, path in (("POST", "/"), ("DELETE", "/files"), ("PUT", "/jobs")):
        refused = page_site.call(method, path, over_tcp=True)
        assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")


def test_a_foreign_host_name_gets_no_page(page_site: Site) -> None:
    for host, status in (("evil.example", 421), ("cache.example:9090", 200), ("localhost", 200), ("[::1]:80", 200)):
        for path in ("/", "/history.json"):
            assert page_site.call("GET", path, over_tcp=True, headers={"Host": host}).status == status, host


def test_the_page_is_small(page_site: Site) -> None:
    overview = page_site.call("GET", "/", over_tcp=True).body
    parts = [overview]
    for path in re.findall(rb'(?:href|src)="(/assets/[^"]+)"', overview):
        asset = page_site.call("GET", path.decode(), over_tcp=True)
        assert "immutable" in asset.headers["cache-control"]
        parts.append(asset.body)
    assert len(parts) == 6
    assert sum(len(gzip.compress(part)) for part in parts) < PAGE_BYTES_MAX


def test_the_history_survives_a_restart(page_site: Site, began: int) -> None:
    answer = page_site.call("GET", "/history.json?range=quarter", over_tcp=True)
    quarter = json.loads(answer.body)
    assert (quarter["step"], quarter["series"][0]) == (3600, "client_bytes")
    points = {point[0]: point[1] for point in quarter["points"]}
    assert (points[began - 7200], points[began - 3600]) == (1e6, 5e6)


def test_only_so_many_streams_are_served(page_site: Site) -> None:
    address = page_site.server.admin_url.removeprefix("http://")

    def stream() -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(address, timeout=20)
        connection.request("GET", "/events")
        return connection.getresponse()

    # Each answer holds its connection.
    opened = [stream() for _ in range(9)]
    statuses = [answer.status for answer in opened]
    # Streams of browsers that have just left may still have a place.
    assert statuses.count(200) <= 8
    assert 503 in statuses
    assert page_site.call("GET", "/", over_tcp=True).status == 200
    for answer in opened:
        answer.close()
