"""Errors of the pipeline.

This module imports nothing, so code that only catches these errors needs no heavy imports.
"""


class EngineError(Exception):
    """An engine that cannot work on this machine. The message is one sentence with the remedy."""


class HistoryError(Exception):
    """A history file that cannot be read. The message is one sentence with the line."""
