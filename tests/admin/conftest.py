"""A cache with an admin port before the distribution's xrootd."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import xrootd
from harness.admin import Site
from harness.ground import Ground


@pytest.fixture
def site(ground: Ground, plain_origin: xrootd.Origin) -> Iterator[Site]:
    """A cache that fetches from the origin, and forwards to it when clients name it."""
    configuration = {"export": [{"origins": [plain_origin.url]}], "forwarding": {"allow": ["127.0.0.1:*"]}}
    with Site(ground, configuration) as running:
        yield running
