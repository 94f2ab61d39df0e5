"""The command line: `forebay-lab EXPERIMENT [options]`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from types import ModuleType

from . import (
    all_command,
    dcap_command,
    inputs_command,
    loop_command,
    report_command,
    rtt_command,
    sites_command,
    stress_command,
    trace_command,
)
from .errors import LabError, OutOfTime

COMMANDS: dict[str, ModuleType] = {
    "inputs": inputs_command,
    "loop": loop_command,
    "sites": sites_command,
    "rtt": rtt_command,
    "stress": stress_command,
    "trace": trace_command,
    "dcap": dcap_command,
    "report": report_command,
    "all": all_command,
}
"""Each module has `add_arguments(parser)` and `run(options)`; the first line of its doc is its help."""


OUT_OF_TIME = 75
"""The exit status after `--minutes`: not a failure, but rows are missing (EX_TEMPFAIL of sysexits.h)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one experiment; the exit status is 0 when it was completed and everything that it checks held."""
    options = parser().parse_args(arguments)
    # A plain `kill` ends the lab in order, as Ctrl-C does: servers are stopped, rows stay.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        COMMANDS[options.command].run(options)
    except KeyboardInterrupt:
        print("\nstopped; the same command resumes here", file=sys.stderr)
        return 130
    except OutOfTime:
        print("the time is over; the same command resumes here", file=sys.stderr)
        return OUT_OF_TIME
    except (LabError, OSError) as error:
        print(f"forebay-lab: {error}", file=sys.stderr)
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    """The parser with all experiments."""
    top = argparse.ArgumentParser(prog="forebay-lab", description="Published measurements of caches, made again here.")
    commands = top.add_subparsers(dest="command", required=True, metavar="EXPERIMENT")
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or "").splitlines()[0]
        module.add_arguments(commands.add_parser(name, help=summary, description=summary))
    return top
