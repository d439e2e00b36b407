"""Exit codes, as Jepsen's."""

from results.record.terms import Validity

VALID = 0
INVALID = 1
UNKNOWN = 2
NOT_HEALED = 1
"""Of `heal`: hosts are not all as they were before the runs, for nothing that the user typed."""
BAD_ARGUMENTS = 254
INTERNAL_ERROR = 255

BY_VALIDITY = {Validity.VALID: VALID, Validity.UNKNOWN: UNKNOWN, Validity.INVALID: INVALID}
