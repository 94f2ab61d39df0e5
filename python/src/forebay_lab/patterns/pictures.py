"""Pictures of a trace: offset against time, and the histogram of request sizes. Each as PNG and as SVG."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from .measures import request_sizes
from .trace import Kind, Trace

MIB = 1 << 20
SIZE_STEPS = 2.0 ** np.arange(0, 33)
FILES_MAX = 8
"""Files that get a picture of their own; further ones are in the figures only."""
COLOURS = {Kind.READ: "#1b6ca8", Kind.VECTOR: "#d1495b", Kind.PAGES: "#2e8b57"}
NAMES = {Kind.READ: "read", Kind.VECTOR: "vector read", Kind.PAGES: "page read"}

# The same trace gives the same file, and text stays text.
mpl.rcParams["svg.hashsalt"] = "forebay-lab"
mpl.rcParams["svg.fonttype"] = "none"


def draw(trace: Trace, folder: Path, name: str) -> list[Path]:
    """Draws both pictures into a folder; gives the paths."""
    return [*draw_offsets(trace, folder, name), *draw_sizes(trace, folder, name)]


def draw_offsets(trace: Trace, folder: Path, name: str) -> list[Path]:
    """Each range as a vertical line from its first to its last byte, at the time of its request; a panel per file."""
    paths = trace.paths
    order = list(dict.fromkeys(paths[read.handle] for read in trace.reads if read.handle in paths))[:FILES_MAX]
    figure = Figure(figsize=(8, 1.2 + 3.0 * max(1, len(order))), layout="constrained")
    panels = figure.subplots(max(1, len(order)), 1, squeeze=False)[:, 0]
    for panel, path in zip(panels, order, strict=False):
        _offsets(panel, trace, {handle for handle, of in paths.items() if of == path})
        panel.set_title(path.split("?", 1)[0], fontsize=8, loc="left")
    return save(figure, folder, f"{name}-offsets")


def _offsets(panel: Axes, trace: Trace, handles: set[int]) -> None:
    for kind, colour in COLOURS.items():
        reads = [read for read in trace.reads if read.kind is kind and read.handle in handles]
        times_and_parts = [(read.start_s, part) for read in reads for part in read.ranges]
        lines = [[(at_s, part.offset / MIB), (at_s, part.end / MIB)] for at_s, part in times_and_parts]
        if lines:
            panel.add_collection(LineCollection(lines, colors=colour, linewidths=1.2, label=NAMES[kind]))
            panel.plot([line[0][0] for line in lines], [line[0][1] for line in lines], ".", color=colour, markersize=2)
    panel.autoscale()
    panel.set_xlabel("time / s")
    panel.set_ylabel("offset / MiB")
    panel.legend(loc="upper left", fontsize=8)


def draw_sizes(trace: Trace, folder: Path, name: str) -> list[Path]:
    """How many requests there are of each size, by powers of two; elements of vector reads count one by one."""
    sizes = request_sizes(trace)
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    panel = figure.subplots()
    panel.hist(sizes, bins=list(SIZE_STEPS), color=COLOURS[Kind.READ], edgecolor="white")
    panel.set_xscale("log", base=2)
    if sizes.size:
        panel.set_xlim(max(1.0, float(sizes.min()) / 2), max(2.0, float(sizes.max()) * 2))
    panel.set_xlabel("bytes asked for at once")
    panel.set_ylabel("requests")
    return save(figure, folder, f"{name}-sizes")


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Writes a figure as NAME.png and NAME.svg."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{name}.png", folder / f"{name}.svg"]
    for path in written:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else {})
    return written
