"""What fails, in one sentence for its reader."""

import errno


class ClusterError(Exception):
    """Something about the cluster or its hosts failed, in one sentence with the remedy."""


class UserError(ClusterError):
    """What failed is the user's to mend (exit code 254): a wrong version, no Java, a full disk."""


class FullDiskError(UserError):
    """A disk is full: no fault of what stands under test, however it ended by that."""


def unwritable(what: object, error: OSError) -> UserError:
    """Return the error to raise where a file or folder cannot be written."""
    kind = FullDiskError if error.errno in {errno.ENOSPC, errno.EDQUOT} else UserError
    return kind(f"{what} cannot be written: {error.strerror}")
