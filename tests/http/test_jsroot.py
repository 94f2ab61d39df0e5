"""JSROOT, in a browser that shows a page of another site, reads ROOT files through the cache."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import uproot
from playwright.sync_api import Page, Response

from harness import xrootd
from harness.browser import PATIENCE_MS, chromium
from harness.forebay import Forebay
from harness.ground import Ground, jsroot
from harness.pki import Credential, Grid
from harness.root_files import Sums, make_tree

TREE, HISTOGRAM = "/store/events.root", "/store/histogram.root"
COUNTS = [3, 1, 4, 1, 5]

DRAW_HISTOGRAM = """async url => {
    const {openFile, draw} = await import("/modules/main.mjs");
    const file = await openFile(url);
    const histogram = await file.readObject("h");
    await draw("drawing", histogram, "hist");
    return Array.from(histogram.fArray).slice(1, -1);
}"""

SUM_BRANCH = """async url => {
    const {openFile, TSelector, treeProcess} = await import("/modules/main.mjs");
    const tree = await (await openFile(url)).readObject("Events");
    const selector = new TSelector();
    selector.addBranch("x");
    let [entries, sum] = [0, 0];
    selector.Process = function () { entries += 1; sum += this.tgtobj.x; };
    await treeProcess(tree, selector);
    return [entries, sum];
}"""


class Handler(SimpleHTTPRequestHandler):
    """Serves the modules of JSROOT."""

    def log_message(self, *_: object) -> None:
        """The log of this server is of no interest."""


@pytest.fixture
def site(host: Credential) -> Iterator[str]:
    """A site with the modules of JSROOT, over TLS."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(jsroot()))) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(host.certificate, host.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://localhost:{server.server_port}"
        server.shutdown()


@pytest.fixture
def page() -> Iterator[Page]:
    """A window of a browser that trusts all certificates."""
    with chromium() as browser, browser.new_context(ignore_https_errors=True) as context:
        context.set_default_timeout(PATIENCE_MS)
        yield context.new_page()


@pytest.fixture(scope="module")
def files(ground: Ground) -> tuple[Path, Sums]:
    """A tree and a histogram."""
    directory = ground.directory("jsroot")
    (directory / TREE[1:]).parent.mkdir()
    with uproot.recreate(directory / HISTOGRAM[1:]) as file:
        file["h"] = (np.array(COUNTS, dtype=float), np.linspace(0, 1, len(COUNTS) + 1))
    return directory, make_tree(directory / TREE[1:])


def test_jsroot_draws_a_histogram_and_reads_a_branch_from_another_site(
    serve: Callable[..., Forebay],
    ground: Ground,
    files: tuple[Path, Sums],
    site: str,
    page: Page,
    grid: Grid,
    host: Credential,
) -> None:
    directory, sums = files
    cache = serve(
        {
            "store": {"path": str(ground.directory("store"))},
            "export": [{"path": "/", "origins": [xrootd.plain(ground, directory).url]}],
            "tls": {"certificate": str(host.certificate), "key": str(host.key), "ca_dir": str(grid.directory)},
            "http": {"cors_origins": [site]},
        }
    )
    errors: list[str] = []
    answers: list[Response] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("response", lambda answer: answers.append(answer) if cache.address in answer.url else None)
    page.route("**/favicon.ico", lambda route: route.fulfill(status=204))
    # The page itself must come from the site: browsers keep pages of unknown addresses from those of this machine.
    page.goto(f"{site}/fonts/")
    page.set_content('<div id="drawing" style="width: 600px; height: 400px"></div>')
    for temperature in ("cold", "warm"):
        assert page.evaluate(DRAW_HISTOGRAM, f"https://{cache.address}{HISTOGRAM}") == COUNTS, temperature
        page.locator("#drawing svg").first.wait_for()
        entries, total = page.evaluate(SUM_BRANCH, f"https://{cache.address}{TREE}")
        assert (entries, total) == (sums.entries, pytest.approx(sums.x)), temperature
    assert errors == []
    assert {answer.status for answer in answers} <= {200, 206}
    kinds = {answer.headers.get("content-type", "").split(";")[0] for answer in answers}
    assert "multipart/byteranges" in kinds, "several ranges in one request"
