"""List, for each promise, the comparisons behind a verdict, and what they could not show."""

from dataclasses import dataclass

from results.record.clock import NS_PER_S
from results.record.verdict import Basis, Compared, Verdict
from results.wording.plural import many

UNTESTED = "No comparison of this run could have shown a violation."
_GIVEN_UP = "There is no promise for this plan, so nothing was compared."


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The comparisons of one check: the count, a noun, the time span, and the name of the check."""

    rows: int
    what: str
    when: str
    check: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """The comparisons that checks made for one promise of the system.

    Attributes:
        promise: The promise, as a sentence.
        summary: The number of comparisons, as text.
        lines: The checks that made comparisons. The check with the most comparisons comes first.
        unshown: Full sentences about violations that the run could not show.
    """

    promise: str
    summary: str
    lines: tuple[Line, ...]
    unshown: tuple[str, ...]


def resting(verdict: Verdict) -> tuple[Resting, ...]:
    """Return, for each promise, the comparisons behind a verdict; empty for an old verdict.

    Args:
        verdict: The stored verdict.
    """
    return tuple(
        Resting(
            promise=basis.promise,
            summary=_summary(basis),
            lines=tuple(
                Line(rows=each.rows, what=each.what, when=_when(each), check=each.check)
                for each in sorted(basis.compared, key=lambda each: (-each.rows, each.check))
                if each.rows
            ),
            unshown=basis.unshown,
        )
        for basis in verdict.basis
    )


def untested(verdict: Verdict) -> tuple[Basis, ...]:
    """Return the promises for which no comparison could have shown a violation."""
    return tuple(each for each in verdict.basis if not (each.looked_at or each.given_up))


def unshown_count(verdict: Verdict) -> int:
    """Return how many kinds of violations the run could not show, i.e. the number of sentences."""
    return sum(len(each.unshown) for each in verdict.basis)


def _summary(basis: Basis) -> str:
    if not basis.looked_at:
        return _GIVEN_UP if basis.given_up else UNTESTED
    rows, checks = (
        sum(each.rows for each in basis.compared),
        sum(each.rows > 0 for each in basis.compared),
    )
    by = "one check" if checks == 1 else f"{checks} checks"
    return f"{many(rows, 'comparison')} by {by}"


def _when(compared: Compared) -> str:
    begun, ended = (
        f"{each / NS_PER_S:.1f} s" if each >= 0 else ""
        for each in (compared.from_ns, compared.to_ns)
    )
    if begun == ended:
        return begun and f"at {begun}"
    if not (begun and ended):
        return f"from {begun}" if begun else f"to {ended}"
    return f"{begun} to {ended}"
