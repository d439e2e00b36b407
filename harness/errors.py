"""Errors that end a command and that no other package defines."""

from cluster.protocol import UserError


class UnplayedError(UserError):
    """The system under test, or its hosts, ended the run for a reason that the user can fix."""


class InternalError(RuntimeError):
    """A bug of Logquake ended the run. The verdict of the run was still written."""
