"""`logquake run --escalate`: play one plan at level 0, 1, 2, ... until it fails.

Then repeat the last level that passed, with another seed, because that level may have passed by
chance. `nemesis/levels.py` defines the levels and their order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from rich.table import Table

from checkers.traffic import NAME as TOO_LITTLE
from cluster.protocol import UserError
from harness.repro import was_interrupted
from nemesis.levels import LEVELS, Climbed, next_level
from results.record.level import level_refusal
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.terms import VALIDITY_RANK, Validity
from results.record.verdict import Verdict

Play = Callable[[Plan], tuple[Verdict, RunPaths]]
Json = dict[str, object]
_SEEDS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One run of an escalation.

    Attributes:
        level: The plan's level.
        seed: The plan's seed.
        run_id: The run's folder in the store.
        valid: The run's verdict.
        quiet: Whether the verdict is unknown only because of too little traffic. Such a run says
            nothing about its level.
        interrupted: Whether Ctrl-C ended the run. Then the run shows nothing about its level.
    """

    level: int
    seed: int
    run_id: str
    valid: Validity
    quiet: bool = False
    interrupted: bool = False


def refuse_escalation(plan: Plan) -> None:
    """Raise an error for a plan that has no levels.

    Raises:
        UserError: The plan has no levels. The message has the reason and the remedy.
    """
    hard = plan.model_copy(update={"level": len(LEVELS) - 1})
    if why := level_refusal(hard):
        raise UserError(f"--escalate: {why}")
    if not plan.nemesis:
        raise UserError(
            "--escalate needs faults, but the plan has none: add faults, or remove --escalate"
        )


def escalate(
    plan: Plan, play: Play, *, steps: list[Step], say: Callable[[str], None]
) -> Sequence[Step]:
    """Play a plan at its level and above; at the end, repeat the last level that passed.

    Args:
        plan: The plan that the user asks for. The escalation begins with the level of this plan.
        play: The function that plays and judges a run.
        steps: The list to which this function adds each run. So the caller has these runs even if a
            later run cannot start.
        say: The function that prints which run is next.

    Raises:
        Any error of `play`.
    """
    fresh = Random(f"{plan.seed}/escalation").randrange(_SEEDS)
    while (level := next_level(_history(steps), first=plan.level)) is not None:
        back = bool(steps) and level <= steps[-1].level
        seed = fresh if back else plan.seed
        say(f"level {level}{' once more, with another seed' if back else ''}: {LEVELS[level].says}")
        verdict, paths = play(plan.model_copy(update={"level": level, "seed": seed}))
        steps.append(
            Step(
                level=level,
                seed=seed,
                run_id=verdict.run_id,
                valid=verdict.valid,
                quiet=_is_quiet(verdict),
                interrupted=was_interrupted(paths),
            )
        )
        if steps[-1].interrupted:
            break
    return steps


def _history(steps: Sequence[Step]) -> list[Climbed]:
    return [Climbed(level=each.level, valid=each.valid, quiet=each.quiet) for each in steps]


def _is_quiet(verdict: Verdict) -> bool:
    """Return whether a verdict is unknown only because of too little traffic."""
    reasons = verdict.unknown_because
    unknown = verdict.valid is Validity.UNKNOWN and bool(reasons)
    return unknown and all(each.startswith(f"{TOO_LITTLE}: ") for each in reasons)


def worst_of(steps: Sequence[Step]) -> Validity:
    """Return the worst verdict of some runs; `unknown` if there was no run."""
    rank = VALIDITY_RANK.__getitem__
    return max((each.valid for each in steps), key=rank, default=Validity.UNKNOWN)


def table_of(steps: Sequence[Step]) -> Table:
    """Return a table of the levels with their verdicts and runs."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("level", "verdict", "seed", "run"):
        table.add_column(column, overflow="fold")
    for each in steps:
        why = {"interrupted": each.interrupted, "too little traffic": each.quiet}
        told = ", ".join([each.valid.value, *(word for word, holds in why.items() if holds)])
        style = "" if each.valid is Validity.VALID else "yellow"
        table.add_row(str(each.level), told, str(each.seed), each.run_id, style=style)
    return table


def as_json(steps: Sequence[Step]) -> Json:
    """Return the levels, their verdicts and runs as JSON."""
    levels = [
        {
            "level": each.level,
            "valid": each.valid.value,
            "seed": each.seed,
            "run_id": each.run_id,
            "too_little_traffic": each.quiet,
            "interrupted": each.interrupted,
        }
        for each in steps
    ]
    return {"valid": worst_of(steps).value, "levels": levels}
