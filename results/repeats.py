"""How often a failure recurs: what a repeat is, which repeats count, and how the result reads.

A repeat is a run that a suite, or `logquake repro`, plays because another run failed; its
`night.json` names that run. A failure's repeats are those of every run that has its signature. They
count like this:

- A repeat counts if its verdict is valid or invalid. An unknown repeat says nothing about a broken
  promise. It counts only if its reason is the very failure that is measured.
- The run that is repeated does not count: it was chosen because it failed.
- Repeats with the same seed and repeats with new seeds count apart.
- A repeat counts as long as the store has both runs.
- A run that was interrupted and broke no promise counts nowhere.

Terminal, site, summary and JUnit XML get their figures and their words from here.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from results.record.hidden import without_secrets
from results.record.night import Why
from results.record.plan import Plan
from results.wilson import wilson_interval

NEVER = "not repeated"
RANGE = "The range is the 95 % interval of the probability."
_NAMED_ELSEWHERE = {"name", "seed", "system", "workload", "hosts", "nemesis", "drawn", "acks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """k of N, with the interval in which the probability lies (95 %, Wilson).

    Attributes:
        times: k.
        of: N.
    """

    times: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """The lower and the upper end, 0 to 1."""
        return wilson_interval(self.times, self.of)

    @property
    def words(self) -> str:
        """`2 of 5 (12 % to 77 %)`; `not repeated` if N is 0."""
        low, high = (f"{100 * each:.0f} %" for each in self.interval)
        return f"{self.times} of {self.of} ({low} to {high})" if self.of else NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """How often a failure recurred when it was repeated.

    Attributes:
        same_seed: In repeats with the seed of the failed run.
        fresh_seeds: In repeats with new seeds.
    """

    same_seed: Rate
    fresh_seeds: Rate

    @property
    def any(self) -> bool:
        """Whether a repeat counts."""
        return bool(self.same_seed.of or self.fresh_seeds.of)

    @property
    def words(self) -> str:
        """`same seed: 2 of 2 (34 % to 100 %); new seeds: not repeated`."""
        return f"same seed: {self.same_seed.words}; new seeds: {self.fresh_seeds.words}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What counting needs to know of a run.

    Attributes:
        run_id: Of the run.
        why: Why it was played.
        repeats: The id of the run that it repeats; empty: none.
        verdict: `valid`, `invalid`, `unknown`; empty: it has none.
        signature: The key of its failure; empty: it has none.
    """

    run_id: str
    why: str
    repeats: str
    verdict: str
    signature: str


def repeats_of(trials: Iterable[Trial], key: str) -> Repeats:
    """Count the repeats of a failure.

    Args:
        trials: Runs, in any order. Those that have nothing to do with the failure do not count.
        key: The signature.
    """
    known = list(trials)
    failed = {each.run_id for each in known if each.signature == key}
    mine = [each for each in known if each.repeats in failed and counts(each, key)]
    return Repeats(
        same_seed=_rate(mine, key, Why.SAME_SEED), fresh_seeds=_rate(mine, key, Why.FRESH_SEED)
    )


def counts(trial: Trial, key: str) -> bool:
    """Tell whether a repeat of a failure counts: its verdict says whether the failure recurred."""
    return trial.verdict in {"valid", "invalid"} or bool(key and trial.signature == key)


def _rate(trials: Collection[Trial], key: str, why: Why) -> Rate:
    mine = [each for each in trials if each.why == why]
    return Rate(times=sum(each.signature == key for each in mine), of=len(mine))


def setting_key(plan: Plan) -> str:
    """Return twelve hex digits of all that a plan says but its name, seed and secrets.

    Runs with the same digits have the same settings.
    """
    told = _told(plan, {"name", "seed"})
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]


def setting_words(plan: Plan) -> str:
    """Name the settings: `acks=all, rate=200, time_limit_s=30`.

    Acks always, and whatever is not as by default. System, hosts, workload and families of faults
    are left out: they have columns of their own.
    """
    return ", ".join([f"acks={plan.acks}", *_named(_told(plan, _NAMED_ELSEWHERE))])


def _told(plan: Plan, but: set[str]) -> Mapping[str, object]:
    """Return what a plan says other than by default; a stored one may hold secrets."""
    return without_secrets(plan.model_dump(mode="json", exclude=but, exclude_defaults=True))


def _named(values: Mapping[str, object], before: str = "") -> Iterable[str]:
    for key, value in sorted(values.items()):
        if key == "scenario":
            continue
        if key == "faults" and isinstance(value, list):
            yield f"{len(value)} faults by hand"
        elif isinstance(value, Mapping):
            yield from _named(value, f"{before}{key}.")
        else:
            yield f"{before}{key}={value}"
