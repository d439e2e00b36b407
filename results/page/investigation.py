"""Investigate a run's failure once, from the stored files, for both page and terminal."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from results.page.breach import Breach, breach_of, verdict_class
from results.page.broker_logs import BrokerLogs, Wanted, broker_logs, clock_about_s, cuts_logged
from results.page.case import Case, case_of
from results.page.close_up import CloseUp, close_up
from results.page.coverage import Coverage, coverage
from results.page.dated import dated
from results.page.recurrence import Recurrence, index_beside, recurrence
from results.page.truncations import Logged, Truncation, truncations_of, with_times
from results.page.witness import Told, witness_story
from results.record.atomic import StoreError
from results.record.clock import NS_PER_S
from results.record.milestones import Milestone, load_milestones
from results.record.paths import RunPaths
from results.record.plan import Plan, PlanError, load_plan, plan_from
from results.record.verdict import Verdict
from results.store import is_alive
from results.tables import RunTables
from results.verdict_json import read_verdict
from results.wording.faults import FaultLine, fault_lines
from results.wording.headline import Headline, headline
from results.wording.naming import Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Investigation:
    """The results of investigating a run.

    Attributes:
        verdict: The verdict; None if there is none, or if it cannot be read (see `trouble`).
        head: The verdict in a sentence, with its main anomaly (the witness).
        breach: The broken promise. None if no promise was broken.
        kind: (class of the verdict, meaning of this class).
        case: The record's facts about the main anomaly; None if there is none.
        told: The main anomaly's events; None if none of them has a time.
        close_up: The drawing of the period around the main anomaly.
        names: Names of the run's ops and messages.
        logs: Lines of brokers' logs around the main anomaly; None if there are no logs.
        recurrence: Whether the failure occurred before, and how often it recurs.
        coverage: The reached transitions; None if the judge did not compute them.
        faults, milestones: Faults and milestones of the run.
        truncations: All truncations of replicas' logs.
        plan: The run's plan; None if it cannot be read.
        trouble: Reason why the verdict cannot be read; empty if it can.
    """

    verdict: Verdict | None
    head: Headline
    breach: Breach | None
    kind: tuple[str, str]
    case: Case | None
    told: Told | None
    close_up: CloseUp | None
    names: Names
    logs: BrokerLogs | None
    recurrence: Recurrence
    coverage: Coverage | None
    faults: list[FaultLine]
    milestones: list[Milestone]
    truncations: list[Truncation]
    plan: Plan | None
    trouble: str = ""

    @property
    def witness_says(self) -> str:
        """The headline's sentence about the main anomaly, with the times of truncations added."""
        return dated(self.head.witness_says, self.told)


def investigate(paths: RunPaths, tables: RunTables) -> Investigation:
    """Investigate a run's failure, and return all results."""
    verdict, trouble = _verdict(paths)
    faults, milestones = fault_lines(tables), load_milestones(paths.milestones)
    head, plan = headline(verdict, alive=is_alive(paths)), _plan(paths)
    names = Names(tables, plan, scripted=paths.steps.exists())
    case = case_of(tables, head.witness) if head.witness else None
    told, astray = None, _astray(plan, faults)
    truncated = truncations_of(tables)
    places = dict.fromkeys([*([case.place] if case else []), *(each.place for each in truncated)])
    logged = _cuts(paths, places, astray)
    if case is not None:
        told = witness_story(
            case, faults, end_s=_end_s(milestones), cuts=logged.get(case.place, {}),
            about_s=clock_about_s(paths),
        )  # fmt: skip
    logs = _logs(paths, case, told, astray)
    drawn = None
    if case is not None and told is not None:
        lines = logs.lines if logs else ()
        own = partial(names.cell, place=case.place)
        drawn = close_up(case, window=told.window, faults=faults, lines=lines, named=own)
    with index_beside(paths) as index:
        try:
            known = recurrence(paths, verdict, plan, faults, index=index)
            covered = coverage(paths, tables, verdict, index)
        except StoreError:  # A damaged index could not be rebuilt.
            known = recurrence(paths, verdict, plan, faults, index=None)
            covered = coverage(paths, tables, verdict, None)
    return Investigation(
        verdict=verdict,
        head=head,
        breach=breach_of(head),
        kind=verdict_class(verdict),
        case=case,
        told=told,
        close_up=drawn,
        names=names,
        logs=logs,
        recurrence=known,
        coverage=covered,
        faults=faults,
        milestones=milestones,
        truncations=with_times(truncated, logged),
        plan=plan,
        trouble=trouble,
    )


def _end_s(milestones: Sequence[Milestone]) -> float:
    return max((each.at_ns / NS_PER_S for each in milestones), default=0.0)


def _astray(plan: Plan | None, faults: Sequence[FaultLine]) -> Callable[[str], bool]:
    """Return a function that reports whether a node's clock may differ from Logquake's clock."""
    elsewhere = plan is None or plan.hosts.startswith("ssh")
    shifted = {
        node
        for each in faults
        if each.kind.startswith("clock") and each.begun
        for node in each.nodes.split(", ")
    }
    return lambda node: elsewhere or node in shifted


def _cuts(
    paths: RunPaths, places: Iterable[str], astray: Callable[[str], bool]
) -> dict[str, Logged]:
    """Return the logged truncations of partitions. Nodes with a shifted clock are left out."""
    try:
        found = cuts_logged(paths, places)
    except OSError:
        return {}
    return {
        place: {node: cuts for node, cuts in logged.items() if not astray(node)}
        for place, logged in found.items()
    }


def _logs(
    paths: RunPaths, case: Case | None, told: Told | None, astray: Callable[[str], bool]
) -> BrokerLogs | None:
    if case is None or told is None:
        return None
    wanted = Wanted(place=case.place, offset=case.offset, window=told.window)
    try:
        return broker_logs(paths, wanted, astray=astray)
    except OSError:
        return None


def _plan(paths: RunPaths) -> Plan | None:
    try:
        return plan_from(load_plan(paths.plan))
    except (OSError, PlanError):
        return None


def _verdict(paths: RunPaths) -> tuple[Verdict | None, str]:
    try:
        return read_verdict(paths.verdict), ""
    except StoreError as trouble:
        return None, str(trouble)
