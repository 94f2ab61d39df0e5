"""Errors that end an experiment."""

from __future__ import annotations


class LabError(Exception):
    """An experiment cannot continue. The text has the cause, the place and a remedy."""
