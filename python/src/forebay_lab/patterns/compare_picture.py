"""The picture of a comparison: events per second and CPU efficiency of each strategy, set-up by set-up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .compare import Line
from .pictures import save
from .strategies import STRATEGIES

BAR_SHARE = 0.8
"""Of the room that a set-up has; the rest keeps set-ups apart."""


def draw(lines: Sequence[Line], folder: Path) -> list[Path]:
    """Draws a picture for each path: events per second, bytes and CPU efficiency, in percent."""
    written = []
    for path in dict.fromkeys(line.path for line in lines):
        written += _draw([line for line in lines if line.path == path], folder, path)
    return written


def _draw(lines: Sequence[Line], folder: Path, path: str) -> list[Path]:
    figure = Figure(figsize=(9, 9), layout="constrained")
    panels = figure.subplots(3, 1, sharex=True)
    _bars(panels[0], lines, lambda line: line.events_percent, "events/s / %")
    _bars(panels[1], lines, lambda line: line.bytes_percent, "bytes transferred / %")
    _bars(panels[2], lines, lambda line: line.cpu_percent, "CPU efficiency / %")
    names, labels = panels[0].get_legend_handles_labels()
    panels[0].set_title(path, loc="left")
    figure.legend(names, labels, fontsize=8, ncols=len(STRATEGIES), loc="outside upper center")
    return save(figure, folder, f"patterns-{path}")


def _bars(panel: Axes, lines: Sequence[Line], value: Callable[[Line], float], label: str) -> None:
    setups = list(dict.fromkeys(line.setup for line in lines))
    strategies = list(dict.fromkeys(line.strategy for line in lines))
    width = BAR_SHARE / max(1, len(strategies))
    for number, strategy in enumerate(strategies):
        of_strategy = [line for line in lines if line.strategy == strategy]
        places = [setups.index(line.setup) + (number + 0.5) * width - BAR_SHARE / 2 for line in of_strategy]
        panel.bar(places, [value(line) for line in of_strategy], width=width, label=strategy)
    panel.set_xticks(range(len(setups)), setups, fontsize=8)
    panel.set_ylabel(label)
