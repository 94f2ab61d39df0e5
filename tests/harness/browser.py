"""Chromium, as visitors of the status page use it. A violation of its policy, or another error, fails the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import axe_playwright_python
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"

PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, timeout=2 * PATIENCE_MS)
        yield browser
        browser.close()


class Visit:
    """One visitor: its window, and the errors that its browser has reported."""

    def __init__(
        self,
        browser: Browser,
        url: str,
        *,
        scheme: Literal["light", "dark"] = "light",
        width: int = 1200,
        script: bool = True,
        inspected: bool = False,
    ) -> None:
        self.url = url
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.context = browser.new_context(
            color_scheme=scheme,
            viewport={"width": width, "height": 900},
            java_script_enabled=script,
            # The checker of accessibility is a script from elsewhere, which the policy forbids.
            bypass_csp=inspected,
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.page: Page = self.context.new_page()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.context.close()
        if kind is None:
            assert self.errors == []
            assert [request for request in self.requests if not request.startswith(self.url)] == []

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def go(self, path: str) -> Page:
        """Opens a page."""
        self.page.goto(self.url + path)
        return self.page

    def log_in(self, token: str) -> None:
        """Logs in by the form."""
        self.go("/login").get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Log in").click()
        self.page.get_by_role("button", name="Log out").wait_for()

    def violations(self, rules: list[str]) -> list[str]:
        """Elements of the open page that are hard to use, by these rules or by all."""
        self.page.add_script_tag(path=AXE)
        found: Any = self.page.evaluate("rules => axe.run(rules.length ? {runOnly: rules} : {})", rules)
        return [f"{it['id']}: {[node['html'] for node in it['nodes']]}" for it in found["violations"]]
