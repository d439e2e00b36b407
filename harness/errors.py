"""Errors of a command, beyond the errors of the other packages."""

from cluster.protocol import UserError


class UnplayedError(UserError):
    """The system under test, or its hosts, ended the run for a reason that the user can fix."""


class InternalError(RuntimeError):
    """A bug of Logquake ended the run. Its verdict was still written."""
