"""How the pipeline fails; imports nothing, so that who only catches it pays for nothing."""


class EngineError(Exception):
    """An engine that cannot work here, in one sentence with the remedy."""


class HistoryError(Exception):
    """A file of histories that cannot be read, in one sentence with the line."""
