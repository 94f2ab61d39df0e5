"""Where a warm server spends its processor time: a call tree and a flame graph of one kind of request.

    python3 bench/profile.py --row read-4k --forebay FOREBAY --load FOREBAY-BENCH --out DIRECTORY
    python3 bench/profile.py --draw ROW.folded --out DIRECTORY

The first form starts an origin and a cache, reads a file into the cache, and samples the cache with perf while the
load generator keeps its connections busy and compares every byte. It needs perf and the permission to use it, and
samples the kernel as well. It writes the folded stacks (`ROW.folded`) and draws them.

The second form draws folded stacks of an earlier run. Neither drawing is kept in the repository.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

FILE_SIZE = "64MiB"
SAMPLES_PER_SECOND = 999
STACK_BYTES = 16384
START_S = 30.0
POLL_S = 0.02

ROWS: dict[str, list[str]] = {
    "read-4k": ["--size", "4KiB"],
    "read-4k-x16": ["--size", "4KiB", "--pipeline", "16"],
    "read-128k": ["--size", "128KiB"],
    "read-1m": ["--size", "1MiB", "--order", "sequential"],
    "pgread-64k": ["--operation", "pgread", "--size", "64KiB"],
    "readv-64x16k": ["--operation", "readv", "--size", "16KiB"],
    "open-stat-close": ["--operation", "open-stat-close"],
}

SVG_WIDTH = 1200.0
SVG_ROW = 16
SVG_CHARACTER = 6.6
SVG_MARGIN = 24
TREE_SHARE_MIN = 0.01


@dataclass
class Frame:
    """A function in a stack, with everything that was sampled in it and below it."""

    name: str
    samples: int = 0
    callees: dict[str, Frame] = field(default_factory=dict)

    def add(self, stack: list[str], samples: int) -> None:
        """Adds samples of a stack, the outermost function first."""
        self.samples += samples
        if stack:
            callee = self.callees.setdefault(stack[0], Frame(stack[0]))
            callee.add(stack[1:], samples)

    def own(self) -> int:
        """Samples in the function itself."""
        return self.samples - sum(callee.samples for callee in self.callees.values())

    def depth(self) -> int:
        """Frames on the deepest stack."""
        return 1 + max((callee.depth() for callee in self.callees.values()), default=0)


def main() -> None:
    """Samples one row and writes its call tree, flame graph and folded stacks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", type=Path, metavar="FOLDED", help="folded stacks of an earlier run")
    parser.add_argument("--row", choices=ROWS, default="read-4k")
    parser.add_argument("--forebay", type=Path)
    parser.add_argument("--load", type=Path)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.draw:
        title, stacks = read_folded(options.draw)
        draw(title, stacks, options.out, options.draw.stem)
        return
    if not options.forebay or not options.load:
        parser.error("--forebay and --load are required, or --draw")
    with tempfile.TemporaryDirectory(prefix="forebay-profile-") as scratch:
        stacks, rate = sample(options, Path(scratch))
    if not stacks:
        sys.exit("perf took no sample")
    title = f"{options.row}, {options.connections} connections, {rate:.0f} requests/s, {stacks.total()} samples"
    options.out.mkdir(parents=True, exist_ok=True)
    lines = [f"# {title}", *(f"{';'.join(stack)} {samples}" for stack, samples in sorted(stacks.items()))]
    (options.out / f"{options.row}.folded").write_text("\n".join(lines) + "\n")
    draw(title, stacks, options.out, options.row)


def read_folded(path: Path) -> tuple[str, Counter[tuple[str, ...]]]:
    """The title and the stacks of a file that this program has written."""
    first, *lines = path.read_text().splitlines()
    stacks: Counter[tuple[str, ...]] = Counter()
    for line in lines:
        stack, _, samples = line.rpartition(" ")
        stacks[tuple(stack.split(";"))] += int(samples)
    return first.removeprefix("# "), stacks


def draw(title: str, stacks: Counter[tuple[str, ...]], folder: Path, name: str) -> None:
    """Writes the call tree as NAME.txt and the flame graph as NAME.svg."""
    root = Frame("all")
    for stack, samples in stacks.items():
        root.add(list(stack), samples)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.txt").write_text(title + "\n\n" + "\n".join(tree(root, root.samples)) + "\n")
    (folder / f"{name}.svg").write_text(flame_graph(root, title))
    print(f"{title}: {folder}/{name}.svg")


def sample(options: argparse.Namespace, scratch: Path) -> tuple[Counter[tuple[str, ...]], float]:
    """Stacks of the cache under load, and the requests per second during the sampling."""
    data, store = scratch / "data", scratch / "store"
    data.mkdir()
    subprocess.run([options.load, "make-file", data / "large", FILE_SIZE], check=True)
    with server(options.forebay, scratch / "origin.log", ["--export-dir", str(data)]) as (origin, _):
        arguments = ["--origin", f"root://{origin}", "--store", str(store), "--budget", "1TiB"]
        with server(options.forebay, scratch / "cache.log", arguments) as (cache, process):
            load = [str(options.load), "load", cache, "/large", "--file-size", FILE_SIZE]
            warm = [*load, "--size", "1MiB", "--order", "sequential", "--operations", "128"]
            subprocess.run(warm, check=True, stdout=subprocess.DEVNULL)
            time.sleep(3)
            load += [
                "--connections",
                str(options.connections),
                "--seconds",
                str(options.seconds + 2),
                *ROWS[options.row],
            ]
            with subprocess.Popen(load, stdout=subprocess.PIPE, text=True) as running:
                time.sleep(1)
                record(process, options.seconds, scratch / "perf.data")
                output, _ = running.communicate()
            report = json.loads(output)
    script = ["perf", "script", "--no-inline", "-F", "ip,sym", "-i", str(scratch / "perf.data")]
    text = subprocess.run(script, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return Counter(parse(text)), report["operations"] / report["wall_s"]


@contextmanager
def server(forebay: Path, log: Path, arguments: list[str]) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server at a free port: its address and process."""
    with log.open("wb") as output:
        command = [str(forebay), "serve", "--listen", "127.0.0.1:0", *arguments]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + START_S
        while not (ready := [line for line in log.read_text().splitlines() if line.startswith("ready root://")]):
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"the server does not get ready: {log.read_text()}")
            time.sleep(POLL_S)
        yield ready[0].removeprefix("ready root://").rstrip("/"), process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def record(process: subprocess.Popen[bytes], seconds: float, data: Path) -> None:
    """Samples a process by a timer, which every virtual machine has, with the stacks of kernel and program."""
    command = ["perf", "record", "--quiet", "-e", "cpu-clock", "-F", str(SAMPLES_PER_SECOND)]
    command += ["--call-graph", f"dwarf,{STACK_BYTES}", "-o", str(data), "-p", str(process.pid)]
    subprocess.run([*command, "--", "sleep", str(seconds)], check=True, stderr=subprocess.DEVNULL)


def parse(text: str) -> Iterator[tuple[str, ...]]:
    """The stacks that `perf script` prints, the outermost function first."""
    for block in text.split("\n\n"):
        names = [line.strip().partition(" ")[2] for line in block.splitlines() if line.strip()]
        known = [name.replace(";", ":") for name in reversed(names) if name and name != "[unknown]"]
        if known:
            yield tuple(known)


def tree(frame: Frame, total: int, indent: int = 0) -> Iterator[str]:
    """Lines of a call tree: share with callees, own share, function. Small branches are left out."""
    yield f"{100 * frame.samples / total:5.1f} % {100 * frame.own() / total:5.1f} %  {' ' * indent}{frame.name}"
    for callee in sorted(frame.callees.values(), key=lambda callee: (-callee.samples, callee.name)):
        if callee.samples >= TREE_SHARE_MIN * total:
            yield from tree(callee, total, indent + 1)


def flame_graph(root: Frame, title: str) -> str:
    """A picture of the stacks: the wider a function, the more of the time; callees lie above their callers."""
    height = root.depth() * SVG_ROW + SVG_MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{SVG_WIDTH:.0f}" height="{height}" '
        f'font-family="monospace" font-size="11"><text x="4" y="15">{escape(title)}</text>'
    ]

    def draw(frame: Frame, x: float, level: int) -> None:
        width = SVG_WIDTH * frame.samples / root.samples
        if width < 0.5:
            return
        y = height - (level + 1) * SVG_ROW
        # The same function has the same colour wherever it is.
        hue = 20 + sum(frame.name.encode()) % 40
        label = escape(frame.name[: max(0, int(width / SVG_CHARACTER) - 1)]) if width > 20 else ""
        parts.append(
            f"<g><title>{escape(frame.name)}: {100 * frame.samples / root.samples:.2f} %</title>"
            f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{SVG_ROW - 1}" fill="hsl({hue},80%,68%)"/>'
            f'<text x="{x + 3:.2f}" y="{y + 11}">{label}</text></g>'
        )
        for callee in sorted(frame.callees.values(), key=lambda callee: callee.name):
            draw(callee, x, level + 1)
            x += SVG_WIDTH * callee.samples / root.samples

    draw(root, 0.0, 0)
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    main()
