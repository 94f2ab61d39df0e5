"""Errors that end an experiment."""

from __future__ import annotations


class LabError(Exception):
    """An experiment cannot continue. The text has the cause, the place and a remedy."""


class OutOfTime(Exception):
    """The time that was given for measuring is over; the same command resumes."""
