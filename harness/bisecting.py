"""`repro --bisect`: what the runs say of a build, as `git bisect run` reads exit codes.

A build is bad if one run had the anomaly again that weighs most in the stored run. It is good if
each run came to a verdict, valid or invalid, and none had it. Otherwise nothing is known, and git
tries another commit. That is so if brokers were never ready or ended the run, of unknown verdicts,
where the anomaly could not be seen, and of a run that had only others of the stored failure's
anomalies. git-bisect(1) has the codes.
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
    """Return what a bisection looks for: the promise that a stored run broke.

    Raises:
        PlanError: It broke none.
    """
    if verdict.valid is not Validity.INVALID:
        raise PlanError(
            f"--bisect looks for the failure of a run, and {run_id} is {verdict.valid}: name an"
            " invalid one"
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
    """Return why the folder of a build has no whole Kafka in it; empty if it has one.

    Its commit may not build, and git is to try another. A folder that is not there is a mistake.

    Args:
        plan: With the system that the user named.
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
    """Return (exit code, why) as soon as no further run can change it; None: play on."""
    last = tally.repeats[-1]
    if last.interrupted:
        return BISECT_INTERRUPTED, "interrupted: it ends the bisection"
    if not last.started:  # Whatever its record shows, it is not the failure of a run that did.
        what = "the build does not start" if last.run_id else "the run did not come to its end"
        return BISECT_SKIP, f"skip: {what} ({_why(last)})"
    if not last.differs:
        return BISECT_BAD, f"bad: {last.run_id} failed in that way"
    if len(tally.repeats) < tally.times:
        return None
    said = [each for each in tally.counted if is_conclusive(each, tally)]
    if len(said) == tally.times:
        return BISECT_GOOD, f"good: none of {many(tally.times, 'run')} failed in that way"
    return BISECT_SKIP, f"skip: {len(said)} of {many(tally.times, 'run')} could tell"


def is_conclusive(repeat: Repeat, tally: Tally) -> bool:
    """Tell whether a run says that the failure did not come, or that it did."""
    if not repeat.differs:
        return True
    wanted = tally.wanted
    related = wanted.kinds | (wanted.beside if isinstance(wanted, SameFailure) else frozenset())
    if not wanted.kinds.isdisjoint(repeat.blind):
        return False  # What it looks for it could not have seen.
    in_part = repeat.verdict == Validity.INVALID and not related.isdisjoint(repeat.kinds)
    return repeat.verdict in {Validity.VALID, Validity.INVALID} and not in_part


def _why(repeat: Repeat) -> str:
    return f"see {repeat.run_id}" if repeat.run_id else "; ".join(repeat.differs)
