"""Pictures, each as PNG and as SVG."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

SIZE_INCHES = (7.5, 4.5)
COLOURS = {"local": "#555555", "direct": "#000000", "forebay": "#1f77b4", "xcache": "#d95f02"}
LINES: dict[str, Literal["-", "--", ":"]] = {"cold": "--", "warm": "-", "file": ":"}


@contextmanager
def picture(directory: Path, name: str, *, title: str, x: str, y: str) -> Iterator[Axes]:
    """Axes to draw on; they are written to `pictures/NAME.png` and `.svg`."""
    folder = directory / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    # Names in an SVG follow from this instead of from chance, so the same rows make the same file.
    with mpl.rc_context({"svg.hashsalt": name}):
        figure, axes = plt.subplots(figsize=SIZE_INCHES, layout="constrained")
        axes.set(title=title, xlabel=x, ylabel=y)
        axes.grid(visible=True, alpha=0.3)
        try:
            yield axes
            figure.savefig(folder / f"{name}.png", dpi=150, metadata={"Software": None})
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        finally:
            plt.close(figure)


@dataclass(frozen=True)
class Look:
    """How a set-up is drawn."""

    colour: str
    line: Literal["-", "--", ":"]


def look(setup: str) -> Look:
    """Caches have a colour each, their states a line each."""
    kind, _, state = setup.partition("-")
    return Look(COLOURS.get(kind, "#2ca02c"), LINES.get(state, "-"))
