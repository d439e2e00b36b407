"""`repro --bisect`: turn the results of reruns into an exit code for `git bisect run`.

- bad: in one rerun, the most severe anomaly of the stored run occurred again.
- good: each rerun ended valid or invalid, and none had that anomaly.
- skip: anything else, so that git tries another commit.

A rerun counts as "skip" in these cases:

- The brokers were never ready, or the rerun did not come to its end.
- The verdict is unknown.
- The check for the anomaly could not be applied.
- The rerun had only other anomalies of the stored failure.

The man page git-bisect(1) lists the exit codes.
"""

from pathlib import Path

from cluster.protocol import UserError
from cluster.systems.builds import build_in
from harness.exit_codes import BISECT_BAD, BISECT_GOOD, BISECT_INTERRUPTED, BISECT_SKIP
from harness.repro import Repeat, SameFailure, Tally
from results.record.plan import Plan, PlanError
from results.record.terms import Validity
from results.record.verdict import Verdict
from results.signature import deciding_anomalies, signature_of
from results.wording.plural import many


def failure_of(verdict: Verdict, plan: Plan, *, run_id: str) -> SameFailure:
    """Return the failure to bisect, i.e. the most severe anomaly of a stored run.

    Raises:
        PlanError: The stored run is valid or unknown.
    """
    if verdict.valid is not Validity.INVALID:
        raise PlanError(
            f"--bisect looks for the failure of an invalid run, but {run_id} is {verdict.valid}:"
            " name an invalid run"
        )
    signature = signature_of(verdict, plan, ())
    assert signature is not None, "an invalid verdict is a failure"
    first = next(name for name in deciding_anomalies(verdict) if name in signature.anomalies)
    return SameFailure(
        title=f"invalid with {first}",
        kinds=frozenset({first}),
        beside=frozenset(signature.anomalies) - {first},
    )


def unbuilt(plan: Plan) -> str:
    """Return why a build folder has no complete Kafka; an empty string if it has one.

    If a commit does not build, git tries another commit. A missing folder is the user's mistake, so
    this function returns an empty string for it.

    Args:
        plan: A plan with the system that the user named.
    """
    folder = Path(plan.named.path).expanduser() if plan.is_kafka and plan.named.path else None
    if folder is None or not folder.is_dir():
        return ""
    try:
        build_in(folder)
    except UserError as incomplete:
        return str(incomplete)
    return ""


def settled_by(tally: Tally) -> tuple[int, str] | None:
    """Return the exit code and its reason; None if further reruns can change the result."""
    last = tally.repeats[-1]
    if last.interrupted:
        return BISECT_INTERRUPTED, "interrupted: this ends the bisection"
    if not last.started:  # Its record cannot show the wanted failure.
        what = "the build does not start" if last.run_id else "the run did not reach its end"
        return BISECT_SKIP, f"skip: {what} ({_why(last)})"
    if not last.differs:
        return BISECT_BAD, f"bad: {last.run_id} had that failure"
    if len(tally.repeats) < tally.times:
        return None
    said = [each for each in tally.counted if is_conclusive(each, tally)]
    if len(said) == tally.times:
        return BISECT_GOOD, f"good: none of {many(tally.times, 'run')} had that failure"
    return BISECT_SKIP, f"skip: only {len(said)} of {many(tally.times, 'run')} were conclusive"


def is_conclusive(repeat: Repeat, tally: Tally) -> bool:
    """Return whether a rerun is conclusive: the failure recurred, or certainly did not occur."""
    if not repeat.differs:
        return True
    wanted = tally.wanted
    related = wanted.kinds | (wanted.beside if isinstance(wanted, SameFailure) else frozenset())
    if not wanted.kinds.isdisjoint(repeat.blind):
        return False  # It could not have seen the wanted anomaly.
    in_part = repeat.verdict == Validity.INVALID and not related.isdisjoint(repeat.kinds)
    return repeat.verdict in {Validity.VALID, Validity.INVALID} and not in_part


def _why(repeat: Repeat) -> str:
    return f"see {repeat.run_id}" if repeat.run_id else "; ".join(repeat.differs)
