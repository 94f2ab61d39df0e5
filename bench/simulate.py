"""The time of a simulation: a generated year of a site, twelve sizes and three policies, with the table of tiers.

    python3 bench/simulate.py --forebay FOREBAY [--scale 1.2] [--threads N] [--record FILE] [--limit SECONDS]

Prints the time of the whole command, its processor time and its memory, and fails when it takes longer than the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PB = 1_000_000_000_000_000
# Parts of the size that the generated records are about.
PARTS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.25, 1.5, 2.0]
POLICIES = ["lru", "s3-fifo", "gdsf"]


def run(argv: list[str]) -> tuple[dict[str, Any], dict[str, float]]:
    """The report of a simulation, and what it took."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    result = subprocess.run(argv, capture_output=True, check=True)
    seconds = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    report: dict[str, Any] = json.loads(result.stdout)
    return report, {
        "seconds": round(seconds, 2),
        "processor_seconds": round(processor, 2),
        "memory_mb": after.ru_maxrss // 1000,
    }


def main() -> int:
    """Generates, simulates, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--forebay", type=Path, required=True)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--scale", type=float, default=1.2)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--record", type=Path, help="file for the figures, as JSON")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds that the command may take")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="forebay-simulate-") as folder:
        records = Path(folder) / "records.csv"
        generate = [
            str(options.forebay),
            "records",
            "generate",
            "--days",
            str(options.days),
            "--scale",
            str(options.scale),
        ]
        with records.open("wb") as out:
            subprocess.run(generate, stdout=out, stderr=subprocess.DEVNULL, check=True)
        sizes = ",".join(str(int(2 * PB * options.scale * part)) for part in PARTS)
        simulate = [str(options.forebay), "simulate", str(records), "--sizes", sizes, "--policies", ",".join(POLICIES)]
        threads = ["--threads", str(options.threads)] if options.threads else []
        one_size = [*simulate[:4], str(2 * PB), "--policies", "lru", "--threads", "1", "--json"]
        _, short = run(one_size)
        report, took = run([*simulate, *threads, "--json"])
    accesses = report["records"]["accesses"]
    figures = {
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "accesses": accesses,
        "files": report["records"]["files"],
        "caches": len(report["caches"]),
        "tiers": len(report["tiers"]),
        **took,
        "one_cache_on_one_core": short,
    }
    text = json.dumps(figures, indent=2)
    print(text)
    if options.record:
        options.record.write_text(text + "\n")
    if took["seconds"] > options.limit:
        print(f"longer than {options.limit:.0f} s", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
