"""How a command fails beyond what the other parts raise."""


class InternalError(RuntimeError):
    """A bug of ours ended the run; its verdict was written all the same."""
