"""The tables of `docs/hunt/finds.md`: the bugs that hunts on Kafka releases found or missed."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, starmap
from pathlib import Path

from benchmarks.hunt_series import JOURNALS, STEPS, Line, Step
from benchmarks.mechanisms import MECHANISMS, RULES
from harness.suites.hunting.failures import Failure, failures, is_conclusive
from harness.suites.hunting.history import history
from harness.suites.hunting.telling import minutes_of
from harness.suites.night import Item
from harness.suites.nights import state_of

TICKETS = "https://issues.apache.org/jira/browse/"
EARLIER, PRESENT = "earlier", "present"
_Seen = Mapping[str, Mapping[str, tuple[str, ...]]]
"""For each ticket, the runs that show its mechanism, each with its anomalies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The failures of one release in one hunt."""

    step: Step
    system: str
    failures: tuple[Failure, ...]
    seen: _Seen
    rules: str

    @property
    def tickets(self) -> list[str]:
        """The tickets whose bug is in this release, and that some runs show."""
        ran = {each.run_id for failure in self.failures for each in _ran(failure)}
        return [
            ticket
            for ticket, runs in self.seen.items()
            if ran.intersection(runs) and MECHANISMS[ticket].is_in(self.system)
        ]

    def of(self, ticket: str) -> tuple[Failure, ...]:
        """Return the failures with a promise that the ticket's bug broke, in any run or rerun."""
        runs = self.seen[ticket]
        return tuple(
            each
            for each in self.failures
            if any({*runs.get(item.run_id, ())} & {*each.broken} for item in _ran(each))
        )

    def unexplained(self, failure: Failure) -> tuple[str, ...]:
        """Return the broken promises that no ticket explains in the failure's own runs."""
        runs = {each.run_id for each in failure.runs}
        told = {
            name
            for ticket in self.tickets
            for run, names in self.seen[ticket].items()
            if run in runs
            for name in names
        }
        return tuple(each for each in failure.broken if each not in told)

    def without_ticket(self, failure: Failure, promises: Collection[str]) -> frozenset[str]:
        """Return the ids of the runs that broke one of the promises, and no ticket explains it."""
        told = {
            run
            for ticket in self.tickets
            for run, names in self.seen[ticket].items()
            if {*names} & {*promises}
        }
        return (
            frozenset(
                each.run_id
                for each in (*_ran(failure), *failure.controls)
                if each.reached and {*each.reached.broken} & {*promises}
            )
            - told
        )

    def like(self, failure: Failure) -> list[str]:
        """Return the tickets whose mechanism runs show, although this release lacks the bug."""
        runs = {each.run_id for each in _ran(failure)}
        return [
            ticket
            for ticket, shown in self.seen.items()
            if runs.intersection(shown) and not MECHANISMS[ticket].is_in(self.system)
        ]


def _ran(failure: Failure) -> tuple[Item, ...]:
    return (*failure.runs, *failure.repeats)


_HEAD = 5
"""The number of lines of a table without rows."""


def table(lines: Sequence[Line], journals: Path = JOURNALS) -> str:
    """Return the tables in Markdown: what was found, and what was not."""
    rows = [
        "| Ticket | Release | Repeats | Control | Broke | Rules | Command | Date |",
        "|---|---|---|---|---|---|---|---|",
    ]
    beside = [
        "", "In these rows, the runs showed a bug, but were rerun because of another failure:", "",
        "| Ticket | Release | Runs | Broke | Rules |", "|---|---|---|---|---|",
    ]  # fmt: skip
    vain = [
        "", "These hunts did not find the expected ticket:", "",
        "| Ticket | Release | Main phases | Runs | Command |", "|---|---|---|---|---|",
    ]  # fmt: skip
    withdrawn = [
        "", "These tickets were reported at first, but the evidence was not enough:", "",
        "| Ticket | Release | Why not |", "|---|---|---|",
    ]  # fmt: skip
    for step in STEPS:
        mine = _current([each for each in lines if each.name == step.name])
        found = list(_found(step, mine, journals))
        for each in found:
            rows += _rows(each)
            beside += _beside(each)
        if mine and not any(step.ticket in each.tickets for each in found):
            vain.append(_in_vain(step, mine, journals))
        withdrawn += [
            f"| {_link(ticket)} | {step.system} | {why} |"
            for line in mine for ticket, why in line.withdrawn.items()
        ]  # fmt: skip
    means = [
        "", "The evidence for each ticket, the files, and the releases on which it counts:", "",
        "| Ticket | Mechanism | Files | Releases |", "|---|---|---|---|",
        *(f"| {_link(ticket)} | {each.means} | `{each.where}` |"
          f" {', '.join(starmap(_releases, each.affects))} |"
          for ticket, each in MECHANISMS.items()),
    ]  # fmt: skip
    tables = (each for each in (beside, vain, withdrawn) if len(each) > _HEAD)
    return "\n".join([*rows, *chain.from_iterable(tables), *means])


def _current(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the parts of a hunt that the present rules searched, or else all parts.

    The runs of the other parts are gone, so no rule can search them again.
    """
    return [each for each in lines if each.rules == RULES] or lines


def _found(step: Step, lines: Sequence[Line], journals: Path) -> Iterator[_Found]:
    """Yield, for each release, the failures that a hunt found."""
    seen: dict[str, dict[str, tuple[str, ...]]] = {ticket: {} for ticket in MECHANISMS}
    for line in lines:
        for ticket, runs in line.shown.items():
            if ticket not in line.withdrawn:
                seen[ticket].update(runs)
    all_failures = failures([state_of(journals / each.journal) for each in lines])
    rules = PRESENT if all(each.rules == RULES for each in lines) else EARLIER
    for system in dict.fromkeys(each.system for each in all_failures):
        mine = tuple(each for each in all_failures if each.system == system)
        yield _Found(step=step, system=system, failures=mine, seen=seen, rules=rules)


def _link(ticket: str) -> str:
    return f"[{ticket}]({TICKETS}{ticket})" if ticket else ""


def _rows(found: _Found) -> Iterator[str]:
    """Yield a row for each ticket, and one for each failure that tickets do not explain."""
    for ticket in found.tickets:
        if mine := found.of(ticket):
            runs, breaks = found.seen[ticket], MECHANISMS[ticket].breaks
            ran = {each.run_id for failure in mine for each in _ran(failure)}
            broken = {name for run in ran.intersection(runs) for name in runs[run]}
            promises = {*breaks, *(name for each in mine for name in each.broken)}
            yield _row(found, _link(ticket), mine, broken, promises=promises, runs=runs)
    for failure in found.failures:
        if left := found.unexplained(failure):
            like = ", ".join(map(_link, found.like(failure)))
            name = "none known" + (f" (looks like {like})" if like else "")
            yield _row(found, name, (failure,), left, promises=left,
                       runs=found.without_ticket(failure, left))  # fmt: skip


def _row(
    found: _Found, ticket: str, mine: Sequence[Failure], broken: Collection[str],
    *, promises: Collection[str], runs: Collection[str],
) -> str:  # fmt: skip
    """Return a row: a ticket, or no ticket, and how often runs show it.

    Args:
        found: The findings of the hunt on this release.
        ticket: The ticket's cell.
        mine: The failures. Their reruns count.
        broken: The promises that the row reports as broken.
        promises: A run failed if it broke one of these promises.
        runs: The ids of the runs that show the ticket. Without a ticket: of the failed runs that no
            ticket explains.
    """
    controls = [item for each in mine for item in each.controls]
    systems = dict.fromkeys(str(each.planned.plan.get("system")) for each in controls)
    told = [f"{system}: {_times(_on(system, controls), promises, runs)}" for system in systems]
    repeats = [item for each in mine for item in each.repeats]
    cells = (
        ticket, found.system, _times(repeats, promises, runs), " / ".join(told) or "none",
        ", ".join(f"`{each}`" for each in sorted(broken)), found.rules,
        f"`{found.step.command}`", _date(mine[0].runs[0]),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _on(system: str, items: Iterable[Item]) -> list[Item]:
    return [each for each in items if each.planned.plan.get("system") == system]


def _times(items: Iterable[Item], promises: Collection[str], runs: Collection[str]) -> str:
    """Return how often runs failed and show the ticket: `3 of 5 (1 failed without it)`.

    Each run counts once, and only if its verdict is conclusive.
    """
    judged = {each.run_id: each for each in items if each.reached and is_conclusive(each)}
    had = {run for run, each in judged.items()
           if each.reached and {*each.reached.broken} & {*promises}}  # fmt: skip
    mine = judged.keys() & {*runs}
    others = f" ({len(had - mine)} failed without it)" if had - mine else ""
    return f"{len(mine)} of {len(judged)}{others}"


def _beside(found: _Found) -> Iterator[str]:
    """Yield a row for each ticket that broke no promise of a failure that was rerun."""
    for ticket in found.tickets:
        if not found.of(ticket):
            items = [item for each in found.failures for item in _ran(each)]
            runs = found.seen[ticket]
            broken = {name for item in items for name in runs.get(item.run_id, ())}
            yield (
                f"| {_link(ticket)} | {found.system}"
                f" | {_times(items, (), runs)}"
                f" | {', '.join(f'`{each}`' for each in sorted(broken))} | {found.rules} |"
            )


def _releases(first: str, fixed: str) -> str:
    return f"from {first}, {f'fixed in {fixed}' if fixed else 'not fixed'}"


def _in_vain(step: Step, lines: Sequence[Line], journals: Path) -> str:
    runs = history([state_of(journals / each.journal) for each in lines])
    minutes = max(minutes_of(runs).values(), default=0.0)
    return (
        f"| {_link(step.ticket) or 'none is known'} | {step.system} | {minutes:.0f} min"
        f" | {len(runs)} | `{step.command}` |"
    )


def _date(item: Item) -> str:
    return f"{datetime.fromtimestamp(item.started_at, UTC):%Y-%m-%d}"
