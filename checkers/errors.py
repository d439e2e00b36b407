"""Errors of the pipeline.

This module imports nothing. So code that only catches these errors loads no big libraries.
"""


class EngineError(Exception):
    """An engine cannot do its work. The message is one sentence, with the remedy if it is known."""


class HistoryError(Exception):
    """A history file cannot be read. The message is one sentence, with the line if it is known."""
