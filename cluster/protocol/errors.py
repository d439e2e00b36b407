"""What fails, in one sentence for its reader."""


class ClusterError(Exception):
    """Something about the cluster or its hosts failed, in one sentence with the remedy."""


class UserError(ClusterError):
    """What failed is the user's to mend (exit code 254): a wrong version, no Java, a full disk."""
