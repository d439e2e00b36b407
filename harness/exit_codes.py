"""Exit codes. Jepsen uses the same codes for verdicts."""

from results.record.terms import Validity

VALID = 0
INVALID = 1
UNKNOWN = 2
NOT_HEALED = 1
"""`heal` exits with this code if it could not yet undo all changes that runs made on hosts."""
BISECT_GOOD = 0
BISECT_BAD = 1
BISECT_SKIP = 125
"""The exit code of `repro --bisect` that makes `git bisect run` try another commit."""
BISECT_INTERRUPTED = 130
"""The exit code of `repro --bisect` after Ctrl-C, as in a shell. A code of 128 or more ends the
bisection."""
BAD_ARGUMENTS = 254
INTERNAL_ERROR = 255

MEANINGS = {
    VALID: "valid: faults took effect, traffic was enough, and no check found a violation",
    INVALID: "invalid: a check found something that the configuration does not allow"
    " (logquake heal: something could not be undone)",
    UNKNOWN: "unknown: the run is not conclusive, and the verdict has the reason; or Ctrl-C ended"
    " the command before there was a verdict",
    BISECT_SKIP: "logquake repro --bisect: this commit cannot be judged; git tries another one",
    BISECT_INTERRUPTED: "logquake repro --bisect: interrupted; git ends the bisection",
    BAD_ARGUMENTS: "an error that you can fix; one sentence on standard error names it",
    INTERNAL_ERROR: "a bug of Logquake; please report it with the traceback",
}
"""A description of each exit code."""

BY_VALIDITY = {Validity.VALID: VALID, Validity.UNKNOWN: UNKNOWN, Validity.INVALID: INVALID}
