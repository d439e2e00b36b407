"""Errors about the cluster, each with a message of one sentence."""

import errno


class ClusterError(Exception):
    """A failure of the cluster or its hosts; the message is one sentence with the remedy."""


class UserError(ClusterError):
    """An error that the user can fix (exit code 254), such as no Java or a full disk."""


class FullDiskError(UserError):
    """A full disk. The system under test is not at fault, even if the disk made it fail."""


def unwritable(what: object, error: OSError) -> UserError:
    """Return the error to raise when a file or folder cannot be written."""
    kind = FullDiskError if error.errno in {errno.ENOSPC, errno.EDQUOT} else UserError
    return kind(f"{what} cannot be written: {error.strerror}")
