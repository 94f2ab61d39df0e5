"""What ends an experiment."""

from __future__ import annotations


class LabError(Exception):
    """An experiment cannot go on. The text says what, where, and what to do."""
