"""Play one run several times, and count how often its result recurs.

For a stored run, the result recurs if a rerun has the same verdict and the same kinds of anomalies.
Anomalies of safety and of liveness count, but failures of the harness do not. For a scenario, the
result recurs if a rerun ends as the scenario expects.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from rich.table import Table

from checkers.errors import EngineError
from cluster.protocol import UserError
from harness.endings import Ending
from harness.errors import InternalError, UnplayedError
from results.record.atomic import StoreError
from results.record.clock import stopwatch_s
from results.record.milestones import load_milestones
from results.record.paths import RunPaths
from results.record.plan import PlanError
from results.record.story import load_story
from results.record.terms import AnomalyClass, Validity
from results.record.verdict import Verdict
from results.repeats import RANGE, Rate
from results.signature import deciding_anomalies

Json = dict[str, object]
"""A JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """The result of one rerun.

    Attributes:
        run_id: The rerun's id; None if the rerun got no verdict.
        verdict: `valid`, `unknown` or `invalid`; an empty string if there is none.
        kinds: The names of the run's anomalies.
        differs: One sentence for each difference from the wanted result; empty if there is none.
        took_s: The time from the start of the run to its verdict.
        interrupted: Whether Ctrl-C ended the rerun. If so, the rerun does not count.
        started: Whether the run's brokers ever became ready.
        blind: The names of checks that could not be applied to the run.
    """

    run_id: str | None
    verdict: str
    kinds: frozenset[str]
    differs: tuple[str, ...]
    took_s: float
    interrupted: bool = False
    started: bool = True
    blind: frozenset[str] = frozenset()


class Wanted(Protocol):
    """The result that a rerun is compared with."""

    @property
    def title(self) -> str:
        """A description of the wanted result in a few words, for the table."""

    @property
    def kinds(self) -> frozenset[str]:
        """The names of the anomalies to count in the reruns."""

    def differences(self, verdict: Verdict, paths: RunPaths) -> tuple[str, ...]:
        """Return one sentence for each difference between a rerun and the wanted result.

        The result is empty if there is no difference.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SameAsBefore:
    """The verdict and the kinds of anomalies of a stored run."""

    title: str
    verdict: Validity
    kinds: frozenset[str]

    def differences(self, verdict: Verdict, paths: RunPaths) -> tuple[str, ...]:  # noqa: ARG002 - the protocol's
        """Compare the verdict and the anomalies with the stored verdict and anomalies."""
        now = kinds_of(verdict)
        found = [f"{verdict.valid}, not {self.verdict}"] if verdict.valid != self.verdict else []
        found += [f"no {kind}" for kind in sorted(self.kinds - now)]
        found += [f"{kind} as well" for kind in sorted(now - self.kinds)]
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class SameFailure:
    """The result that is wanted if only the most severe anomaly of a stored run counts.

    The other anomalies do not count, because another build may show more or fewer of them, and
    because chance decides which of them appear.

    Attributes:
        kinds: The most severe anomaly.
        beside: The other anomalies of the stored failure, except for consequences of another
            anomaly. A rerun with only these anomalies proves nothing.
    """

    title: str
    kinds: frozenset[str]
    beside: frozenset[str] = frozenset()

    def differences(self, verdict: Verdict, paths: RunPaths) -> tuple[str, ...]:  # noqa: ARG002 - the protocol's
        """Return sentences that say why the rerun does not count as the same failure.

        The result is empty if the rerun has the most severe anomaly.
        """
        if verdict.valid is not Validity.INVALID:
            return (f"{verdict.valid}, not invalid",)
        broken = deciding_anomalies(verdict).keys()
        return tuple(f"no {kind}" for kind in sorted(self.kinds - broken))


@dataclass(frozen=True, slots=True, kw_only=True)
class AsExpected:
    """The end that a scenario expects."""

    title: str
    kinds: frozenset[str] = frozenset()

    def differences(self, verdict: Verdict, paths: RunPaths) -> tuple[str, ...]:  # noqa: ARG002 - the protocol's
        """Return the differences from the expected end, as the rerun recorded them."""
        story = load_story(paths.story)
        if story is None or story.as_expected is None:
            return ("the run was not compared with the expected result",)
        return story.differs


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The results of all reruns of one run on one system.

    Attributes:
        wanted: The result with which reruns are compared.
        times: How many reruns the user asks for.
        repeats: The reruns, in order.
        system: The system that the user named; an empty string for the plan's own.
    """

    wanted: Wanted
    times: int
    repeats: tuple[Repeat, ...]
    system: str = ""

    @property
    def counted(self) -> tuple[Repeat, ...]:
        """The reruns that Ctrl-C did not end."""
        return tuple(each for each in self.repeats if not each.interrupted)

    @property
    def same(self) -> int:
        """How many reruns have the wanted result."""
        return sum(not each.differs for each in self.counted)

    @property
    def whole(self) -> bool:
        """Whether all reruns were played and have the wanted result."""
        return self.same == len(self.counted) == self.times

    def again(self, kind: str) -> int:
        """Return the number of reruns in which an anomaly recurred."""
        return sum(kind in each.kinds for each in self.counted)

    def sentences(self) -> list[str]:
        """Return sentences with the result: k of N reruns, in total and for each anomaly."""
        of = len(self.counted)
        if not of:
            return ["no run reached its end"]
        said = [f"{Rate(times=self.same, of=of).words} had the same result: {self.wanted.title}"]
        kinds = sorted(self.wanted.kinds)
        where = f" on {self.system}" if self.system else ""
        return (
            said
            + [f"{Rate(times=self.again(kind), of=of).words} had {kind}{where}" for kind in kinds]
            + [RANGE]
        )

    def as_json(self) -> Json:
        """Return the result as JSON."""
        of = len(self.counted)
        return {
            "wanted": self.wanted.title,
            "system": self.system or None,
            "times": self.times,
            **_figures(self.same, of),
            "kinds": {k: _figures(self.again(k), of) for k in sorted(self.wanted.kinds)},
            "runs": [
                {
                    "run_id": each.run_id,
                    "valid": each.verdict or None,
                    "anomalies": sorted(each.kinds),
                    "same": not each.differs and not each.interrupted,
                    "differs": list(each.differs),
                    "interrupted": each.interrupted,
                    "took_s": round(each.took_s, 1),
                }
                for each in self.repeats
            ],
        }

    def table(self, *, playing_s: float | None = None) -> Table:
        """Return the table of the reruns so far.

        Args:
            playing_s: How long the current rerun has been running; None if no rerun is in progress.
        """
        title = f"on {self.system}" if self.system else None
        table = Table(
            title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="dim"
        )
        for column in ("", "run", "verdict", "the same", "seconds"):
            table.add_column(column, overflow="fold")
        for number, each in enumerate(self.repeats, 1):
            same = "yes" if not each.differs else f"no: {'; '.join(each.differs)}"
            cells = (each.run_id or "none", each.verdict or "none", same, f"{each.took_s:.0f}")
            table.add_row(str(number), *cells, style="" if not each.differs else "yellow")
        if playing_s is not None:
            place = f"{len(self.repeats) + 1} of {self.times}"
            table.add_row(place, "is being played", "", "", f"{playing_s:.0f}", style="dim")
        return table


def kinds_of(verdict: Verdict) -> frozenset[str]:
    """Return the names of a verdict's anomalies, without failures of the harness."""
    return frozenset(
        name
        for name, each in verdict.anomalies.items()
        if each.anomaly_class is not AnomalyClass.HARNESS
    )


def repeat(
    play: Callable[[], tuple[Verdict, RunPaths]],
    wanted: Wanted,
    *,
    first: bool,
    bisect: bool = False,
) -> Repeat:
    """Play the run once more, and compare its result with the wanted result.

    Args:
        play: The function that plays and judges one run.
        wanted: The result to compare with.
        first: Whether this is the first rerun. In the first, an error that the user can fix ends
            all reruns.
        bisect: Whether the reruns test a build for `git bisect`. If so, and if the build caused the
            end of the run, the run counts as not started. Any other error, such as a bug of
            Logquake, ends all reruns.
    """
    begun_s = stopwatch_s()
    try:
        verdict, paths = play()
    except (EngineError, InternalError, PlanError, StoreError, UserError) as failed:
        of_build, ours = isinstance(failed, UnplayedError), isinstance(failed, InternalError)
        if not of_build if bisect else first and not ours:
            raise
        return Repeat(
            run_id=None,
            verdict="",
            kinds=frozenset(),
            differs=(str(failed),),
            took_s=stopwatch_s() - begun_s,
            started=False,
        )
    interrupted = was_interrupted(paths)
    differs = wanted.differences(verdict, paths)
    return Repeat(
        run_id=paths.run_id,
        verdict=verdict.valid.value,
        kinds=kinds_of(verdict),
        differs=("it was interrupted",) if interrupted else differs,
        took_s=stopwatch_s() - begun_s,
        interrupted=interrupted,
        started=any(each.name == "ready" for each in load_milestones(paths.milestones)),
        blind=frozenset(name for name, rows in verdict.checked.items() if rows is None),
    )


def was_interrupted(paths: RunPaths) -> bool:
    """Return whether Ctrl-C ended a run early."""
    reached = load_milestones(paths.milestones)
    return any(
        each.name == "failed" and each.detail.get("kind") == Ending.INTERRUPTED.value
        for each in reached
    )


def _figures(count: int, of: int) -> Json:
    return {
        "same": count,
        "of": of,
        "interval_95": [round(x, 6) for x in Rate(times=count, of=of).interval],
    }
