"""How a command fails beyond what the other parts raise."""

from cluster.protocol import UserError


class UnplayedError(UserError):
    """The system under test, or its hosts, ended the run by what the user can mend."""


class InternalError(RuntimeError):
    """A bug of ours ended the run; its verdict was written all the same."""
