"""Errors of the pipeline.

This module imports nothing. So code that only catches these errors loads no big libraries.
"""


class EngineError(Exception):
    """An engine that cannot work on this machine. The message is one sentence with the remedy."""


class HistoryError(Exception):
    """A history file that cannot be read. The message is one sentence with the line."""
