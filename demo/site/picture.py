"""A picture of the status page, by the browser of the tests."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image
from playwright.sync_api import expect, sync_playwright

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
WIDTH, HEIGHT = 1100, 1110
COLOURS = 64


def take_picture(url: str, target: Path) -> None:
    """Writes the upper part of the overview, with the charts of a day and of ninety days, as PNG."""
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(url)
        page.get_by_text("Day and 90 days").click()
        expect(page.locator("figure.chart[data-range=quarter] .uplot")).to_be_visible()
        picture = page.screenshot()
        browser.close()
    # A third of the bytes, with colours that look the same.
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS).save(target, optimize=True)
