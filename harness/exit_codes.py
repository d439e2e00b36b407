"""Exit codes, as Jepsen's."""

from results.record.terms import Validity

VALID = 0
INVALID = 1
UNKNOWN = 2
NOT_HEALED = 1
"""Of `heal`: hosts are not all as they were before the runs, for nothing that the user typed."""
BISECT_GOOD = 0
BISECT_BAD = 1
BISECT_SKIP = 125
"""Of `repro --bisect`, as `git bisect run` reads them (git-bisect(1)): it tries another commit."""
BISECT_INTERRUPTED = 130
"""Of the same, by Ctrl-C: a shell's code for that. From 128 on git ends the bisection."""
BAD_ARGUMENTS = 254
INTERNAL_ERROR = 255

MEANINGS = {
    VALID: "valid: faults took effect, traffic was enough, and no check found a violation",
    INVALID: "invalid: a check found something that the configuration does not allow"
    " (logquake heal: something could not be undone)",
    UNKNOWN: "unknown: the run cannot tell, and the verdict gives the reason; or Ctrl-C ended the"
    " command before there was a verdict",
    BISECT_SKIP: "logquake repro --bisect: this commit cannot be judged; git tries another one",
    BISECT_INTERRUPTED: "logquake repro --bisect: interrupted; git ends the bisection",
    BAD_ARGUMENTS: "an error that you can fix; one sentence on standard error names it",
    INTERNAL_ERROR: "a bug of Logquake; please report it with the traceback",
}
"""Each code in words."""

BY_VALIDITY = {Validity.VALID: VALID, Validity.UNKNOWN: UNKNOWN, Validity.INVALID: INVALID}
