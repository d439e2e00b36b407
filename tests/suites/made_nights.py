"""Nights by hand: journals as a conductor would have written them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.suites.journal import (
    Begun,
    Ended,
    Journal,
    Judged,
    Line,
    Planned,
    Played,
    Started,
)
from harness.suites.nights import NightFolder, suite_folder
from results.record.night import Why
from results.record.terms import Validity

LOST = "0123456789ab"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of a made night: how it ended, and what it was."""

    entry: str
    valid: Validity = Validity.VALID
    allowed: bool = False
    signature: str = ""
    why: Why = Why.PLANNED
    repeats: str = ""
    seed: int = 1
    as_expected: bool | None = None


def lines(night: str, runs: Sequence[Run], *, at: float = 1_000.0) -> Iterator[Line]:
    """Yield the journal of a night in which all runs were played one after the other."""
    yield Begun(suite="made", night=night, budget_s=600, at=at)
    for item, run in enumerate(runs, 1):
        yield Planned(
            item=item, entry=run.entry, seed=run.seed, why=run.why, repeats=run.repeats,
            lasts_s=10, at=at,
        )  # fmt: skip
    for item, run in enumerate(runs, 1):
        yield from played(item, run, night, at=at + 20 * item)
    yield Ended(at=at + 20 * len(runs) + 20)


def played(item: int, run: Run, night: str, *, at: float) -> Iterator[Line]:
    run_id = run_of(night, item)
    yield Started(item=item, run_id=run_id, at=at)
    yield Played(item=item, run_id=run_id, main_s=8, at=at + 15)
    yield Judged(
        item=item, run_id=run_id, valid=run.valid, allowed=run.allowed,
        as_expected=run.as_expected,
        signature=run.signature, sentence="Acknowledged writes were lost." if run.signature else "",
        reason="log-0-1: offset 17 is gone" if run.signature else "", at=at + 18,
    )  # fmt: skip


def run_of(night: str, item: int) -> str:
    return f"log/{night}-{item}"


def failed(entry: str, **more: object) -> Run:
    return Run(entry=entry, valid=Validity.INVALID, signature=LOST, **more)  # type: ignore[arg-type]  # by name


def stored_night(store: Path, night: str, runs: Sequence[Run]) -> NightFolder:
    """Write a night's journal to where a conductor has it."""
    folder = NightFolder(root=suite_folder(store, "made") / night)
    Journal(folder.journal).write(*lines(night, runs))
    return folder
