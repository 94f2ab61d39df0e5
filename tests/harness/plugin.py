"""Our client plug-in, built by `make plugin`, and the environment that clients load it in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from .ground import REPOSITORY, MissingProgram


def client_plugin() -> Path:
    """The name that clients are given: they put the number of their XRootD before the suffix."""
    built = Path(os.environ.get("FOREBAY_PLUGIN_DIR", REPOSITORY / "target" / "plugin"))
    for major in (5, 6):
        library = built / f"libXrdClForebay-{major}.so"
        if not library.is_file():
            raise MissingProgram(f"{library} does not exist: run `make plugin`")
    return built / "libXrdClForebay.so"


def through_caches(caches: Sequence[str], **more: str) -> dict[str, str]:
    """The environment that sends clients through caches, given by their URLs."""
    return {
        "XRD_PLUGIN": str(client_plugin()),
        "FOREBAY": ",".join(caches),
        "FOREBAY_CONNECT_TIMEOUT": "10",
        "FOREBAY_OPEN_TIMEOUT": "60",
        **more,
    }
