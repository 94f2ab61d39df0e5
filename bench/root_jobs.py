"""Times analysis jobs on cold ROOT files over emulated paths: direct, and through caches.

For each round trip it starts `forebay-wan up` with paths `client:cache`, `cache:origin` and `client:origin`, and itself
in there. Rows are appended to `--out` as they come; those that the file has are not measured again. At the end
the table of all of its rows is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from root_lab import PORTS, XCACHES, Client, Lab, plan_of
from root_scripts import DATASETS
from root_table import table

KINDS = ("flat", "fat", "ntuple")
# Files of a dataset: one content under several names.
FILES = 10
SETTLING_SECONDS = 0.5
# Ways to the files on which each file is like the first one: one is measured.
FORGETFUL = ("direct", "xcache", "xcache6", "xcache6-tuned", "forebay-off", "forebay-off1m", "forebay-learn")

Row = dict[str, object]


def make_files(directory: Path, python: str) -> None:
    """Files of random numbers, of each kind one content under several names."""
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run([python, Path(__file__).with_name("root_files.py"), directory], check=True)
    for kind in KINDS:
        for number in range(1, FILES):
            (directory / kind / f"{number}.root").hardlink_to(directory / kind / "0.root")


def arguments() -> argparse.Namespace:
    """The arguments of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", default="A,B,C,D,E,F,G,H,I")
    parser.add_argument(
        "--servers",
        default="direct,xcache6,xcache6-tuned,forebay-off,forebay-learn-and-remember",
        help="ways to the files: direct, xcache, xcache6, xcache6-tuned, forebay-VALUE of read_ahead.structure",
    )
    parser.add_argument("--rtt", default="10,50,150", help="round trips between cache and origin, in milliseconds")
    parser.add_argument(
        "--files", default="1,2,10", help="files of the dataset that are measured; all before are read too"
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--congestion", default="bbr", help="congestion control of TCP")
    parser.add_argument("--forebay", default="target/release/forebay")
    parser.add_argument("--wan", default="target/release/forebay-wan")
    parser.add_argument("--root-python", default=".venv-root/bin/python")
    parser.add_argument(
        "--xrootd6", type=Path, help="an installation of XRootD 6, for the ways xcache6 and xcache6-tuned"
    )
    parser.add_argument(
        "--data", type=Path, required=True, help="directory of the files; they are written if it has none"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", action="store_true", help="only print the table of the rows in --out")
    return parser.parse_args()


def main() -> None:
    """Measures what is missing, and prints the table."""
    args = arguments()
    if "FOREBAY_WAN" in os.environ:
        measure_all(args)
        return
    if not args.table:
        if not (args.data / KINDS[-1] / f"{FILES - 1}.root").exists():
            make_files(args.data, args.root_python)
        # A round is whole before the next one begins: what is there after an interruption is complete.
        for number in range(args.rounds):
            for rtt in args.rtt.split(","):
                run_lab(args, number, rtt)
    print(table(rows_of(args.out)))


def run_lab(args: argparse.Namespace, number: int, rtt: str) -> None:
    """Runs this program on the first host of an emulated network."""
    with tempfile.TemporaryDirectory(prefix="root-jobs-lab-") as directory:
        plan = Path(directory) / "lab.toml"
        plan.write_text(plan_of(rtt, args.congestion))
        command = [args.wan, "up", "--file", str(plan), "--", sys.executable, *sys.argv]
        environment = {**os.environ, "ROOT_JOBS_ROUND": str(number), "ROOT_JOBS_RTT": rtt}
        subprocess.run(command, check=True, env=environment)


def rows_of(path: Path) -> list[Row]:
    """The rows that were measured before."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measure_all(args: argparse.Namespace) -> None:
    """Runs the jobs by each way, and appends a row for each file."""
    number, rtt = int(os.environ["ROOT_JOBS_ROUND"]), int(os.environ["ROOT_JOBS_RTT"])
    if args.xrootd6:
        XCACHES["xcache6"] = args.xrootd6
    files = [int(file) for file in args.files.split(",")]
    known = {(row["rtt_ms"], row["run"], row["job"], row["way"], row["file"]) for row in rows_of(args.out)}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="root-jobs-")))
        directory.chmod(0o755)
        lab = Lab(directory, args.forebay, args.wan)
        client = Client(directory, {"uproot": sys.executable, "root": args.root_python}, lab.round_trip_s())
        stack.enter_context(lab.origin(args.data))
        out = stack.enter_context(args.out.open("a"))
        # Interleaved: a busy moment of the machine hits all ways.
        for job in args.jobs.split(","):
            for way in args.servers.split(","):
                wanted = [1] if way in FORGETFUL else files
                if all((rtt, number, job, way, file) in known for file in wanted):
                    continue
                for row in measure(lab, client, job, way, wanted):
                    if (rtt, number, job, way, row["file"]) in known:
                        continue
                    line = json.dumps({"rtt_ms": rtt, "run": number, **row})
                    print(line, flush=True)
                    print(line, file=out, flush=True)


def measure(lab: Lab, client: Client, job: str, way: str, files: list[int]) -> Iterator[Row]:
    """A job on cold files of one dataset."""
    dataset = DATASETS.get(job, "flat")
    reads = lab.origin_reads()
    if way == "direct":
        url = f"root://{lab.address('origin', 'client')}:{PORTS['origin']}/"
        row = timed(lab, client, job, way, f"{url}/{dataset}/1.root")
        yield row | {"file": 1, "origin_requests": lab.origin_reads() - reads}
        return
    # The session with the origin is in use; of another dataset.
    other = "fat" if dataset == "flat" else "flat"
    if not way.startswith("forebay"):
        with lab.xcache(way) as url:
            client.run("W", f"{url}/{other}/0.root")
            row = timed(lab, client, job, way, f"{url}/{dataset}/1.root")
        # The origin counts requests when a connection ends: those for the other file, too.
        yield row | {"file": 1, "origin_requests": lab.origin_reads() - reads}
        return
    with lab.forebay_cache(way) as url:
        client.run("W", f"{url}/{other}/0.root")
        for number in range(1, max(files) + 1):
            before = lab.metrics()
            row = timed(lab, client, job, way, f"{url}/{dataset}/{number % FILES}.root") | {"file": number}
            row |= {key: round(after - before[key], 2) for key, after in lab.metrics().items()}
            if number in files:
                yield row


def timed(lab: Lab, client: Client, job: str, way: str, url: str) -> Row:
    """The times of a job, and the bytes that the origin has sent meanwhile."""
    before = lab.sent_bytes()
    times = client.run(job, url)
    # sleep: what was closed is counted and learned a moment later, and the rests of blocks come.
    time.sleep(SETTLING_SECONDS)
    sent = lab.sent_bytes() - before
    return {"job": job, "way": way, **times, "origin_mb": round(sent / 1e6, 1)}


if __name__ == "__main__":
    main()
