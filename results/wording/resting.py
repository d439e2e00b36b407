"""What a verdict rests on, in words: by promise what was compared, and what could not show."""

from dataclasses import dataclass

from results.record.clock import NS_PER_S
from results.record.verdict import Basis, Compared, Verdict
from results.wording.plural import many

UNTESTED = "Nothing was compared that could have shown it broken."
_GIVEN_UP = "Nothing is promised here, so nothing was compared."


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What one check compared: `3,372`, `committed sends …`, `13.1 s to 81.5 s`, `lost-write`."""

    rows: int
    what: str
    when: str
    check: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """One promise.

    Attributes:
        promise: Its sentence.
        summary: How much was compared.
        lines: By the checks that compared anything, most first.
        unshown: Whole sentences: what the run could not show.
    """

    promise: str
    summary: str
    lines: tuple[Line, ...]
    unshown: tuple[str, ...]


def resting(verdict: Verdict) -> tuple[Resting, ...]:
    """Return what a verdict rests on by promise; of one of old, whose basis is not known, nothing.

    Args:
        verdict: As it was stored.
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
    """Return the promises of a run of which nothing that was compared could show anything."""
    return tuple(each for each in verdict.basis if not (each.looked_at or each.given_up))


def unshown_count(verdict: Verdict) -> int:
    """Return how many sentences there are on what the run could not show."""
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
