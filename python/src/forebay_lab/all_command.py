"""All experiments one after the other, and the report."""

from __future__ import annotations

import argparse
from types import ModuleType

from . import dcap_command, loop_command, report_command, rtt_command, sites_command, stress_command, trace_command
from . import options as shared
from .errors import LabError

EXPERIMENTS: tuple[tuple[ModuleType, tuple[str, ...]], ...] = (
    (loop_command, ()),
    (stress_command, ()),
    (trace_command, ("compare",)),
    (sites_command, ()),
    (rtt_command, ()),
    (dcap_command, ()),
)
"""Experiments that need root come last."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    shared.add_place(parser)
    shared.add_programs(parser)
    shared.add_repetitions(parser)


def run(options: argparse.Namespace) -> None:
    """Runs all experiments, also after a failure, and reports all failures at the end."""
    run_directory = shared.place(options).run
    given = _common(options, run_directory.name)
    deadline = shared.deadline(options)
    failures = []
    for module, first in EXPERIMENTS:
        limit = ["--minutes", str(deadline.minutes_left)] if options.minutes is not None else []
        try:
            _run(module, [*first, *given, *limit])
        except LabError as error:
            failures.append(f"{(module.__doc__ or '').splitlines()[0]} {error}")
    _run(report_command, [str(run_directory)])
    if failures:
        raise LabError("\n".join(["these experiments failed:", *failures]))


def _common(options: argparse.Namespace, name: str) -> list[str]:
    """The options that were given, for each experiment."""
    given = ["--name", name, "--seed", str(options.seed), "--xcache", options.xcache]
    for option in ("runs_dir", "data_dir", "memory_dir", "forebay", "root_python", "bench_dir"):
        given += [f"--{option.replace('_', '-')}", str(getattr(options, option))]
    given += ["--quick"] if options.quick else []
    given += ["--repetitions", str(options.repetitions)] if options.repetitions else []
    return given


def _run(module: ModuleType, arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    module.run(parser.parse_args(arguments))
