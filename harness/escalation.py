"""`logquake run --escalate`: one plan at level 0, 1, 2, ... until something breaks.

Then the last level that held is played once more, with another seed: did it hold, or was it luck?
`nemesis/levels.py` says what each level is, and which comes next.
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
    """A run on the way.

    Attributes:
        level: Of its plan.
        seed: Of its plan.
        run_id: Its folder in the store.
        valid: Its verdict.
        quiet: Whether that is unknown for too little traffic alone: it says nothing of its level.
        interrupted: Whether Ctrl-C ended it: neither does that.
    """

    level: int
    seed: int
    run_id: str
    valid: Validity
    quiet: bool = False
    interrupted: bool = False


def refuse_escalation(plan: Plan) -> None:
    """Refuse what has no levels.

    Raises:
        UserError: Why, and the remedy.
    """
    hard = plan.model_copy(update={"level": len(LEVELS) - 1})
    if why := level_refusal(hard):
        raise UserError(f"--escalate: {why}")
    if not plan.nemesis:
        raise UserError("--escalate: a run without faults has no levels; leave it or --nemesis out")


def escalate(
    plan: Plan, play: Play, *, steps: list[Step], say: Callable[[str], None]
) -> Sequence[Step]:
    """Play a plan at its level and above, and go back at the end.

    Args:
        plan: As asked for; its level is the first.
        play: Plays and judges a run.
        steps: Each run is appended, so that they are known if one cannot be played.
        say: Tells the user what is played next.

    Raises:
        What `play` raises.
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
    """Tell whether a verdict is unknown for too little traffic, and for nothing else."""
    reasons = verdict.unknown_because
    unknown = verdict.valid is Validity.UNKNOWN and bool(reasons)
    return unknown and all(each.startswith(f"{TOO_LITTLE}: ") for each in reasons)


def worst_of(steps: Sequence[Step]) -> Validity:
    """Return the worst verdict; `unknown` if nothing was played."""
    rank = VALIDITY_RANK.__getitem__
    return max((each.valid for each in steps), key=rank, default=Validity.UNKNOWN)


def table_of(steps: Sequence[Step]) -> Table:
    """Return the levels with their verdicts and runs."""
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
    """Return the same for machines."""
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
