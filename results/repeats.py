"""How often a failure recurs in reruns: what a rerun is, how reruns count, and how texts say it.

A repeat is a rerun: a run that a suite or `logquake repro` executes because another run failed. The
rerun's `night.json` contains the id of the failed run. The repeats of a failure are the repeats of
all runs with the failure's signature. The rules are:

- A repeat counts if its verdict is valid or invalid. An unknown verdict shows nothing about a
  broken promise. So a repeat with an unknown verdict counts only if the measured failure is the
  reason for this verdict.
- The failed run itself does not count, because it was chosen for its failure.
- Repeats with the seed of the failed run and repeats with new seeds are counted separately.
- A repeat counts only while the store has both the repeat and the failed run.
- A run that was interrupted and broke no promise never counts.

Terminal, site, summary and JUnit XML use the figures and words of this module.
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
RANGE = "The range is the 95 % confidence interval of the probability."
_NAMED_ELSEWHERE = {"name", "seed", "system", "workload", "hosts", "nemesis", "drawn", "acks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate k of N, with the 95 % confidence interval (Wilson) of the probability.

    Attributes:
        times: The number k.
        of: The number N.
    """

    times: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        """The lower and the upper end of the interval, from 0 to 1."""
        return wilson_interval(self.times, self.of)

    @property
    def words(self) -> str:
        """The rate as text: `2 of 5 (12 % to 77 %)`, or `not repeated` if N is 0."""
        low, high = (f"{100 * each:.0f} %" for each in self.interval)
        return f"{self.times} of {self.of} ({low} to {high})" if self.of else NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """How often a failure recurred when runs with this failure were rerun.

    Attributes:
        same_seed: Rate in reruns with the seed of the failed run.
        fresh_seeds: Rate in reruns with new seeds.
    """

    same_seed: Rate
    fresh_seeds: Rate

    @property
    def any(self) -> bool:
        """Whether any rerun counts."""
        return bool(self.same_seed.of or self.fresh_seeds.of)

    @property
    def words(self) -> str:
        """Both rates as text: `same seed: 2 of 2 (34 % to 100 %); new seeds: not repeated`."""
        return f"same seed: {self.same_seed.words}; new seeds: {self.fresh_seeds.words}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A run, and the facts that decide whether and how the run counts.

    Attributes:
        run_id: Id of the run.
        why: Reason for which the run was executed.
        repeats: Id of the failed run that this run reruns; empty if none.
        verdict: `valid`, `invalid` or `unknown`; empty if not judged.
        signature: Key of the run's failure; empty if the run did not fail or was not judged.
    """

    run_id: str
    why: str
    repeats: str
    verdict: str
    signature: str


def repeats_of(trials: Iterable[Trial], key: str) -> Repeats:
    """Count how often a failure recurred in reruns.

    Args:
        trials: Runs, in any order. Runs that are unrelated to the failure are not counted.
        key: Key of the failure's signature.
    """
    known = list(trials)
    failed = {each.run_id for each in known if each.signature == key}
    mine = [each for each in known if each.repeats in failed and counts(each, key)]
    return Repeats(
        same_seed=_rate(mine, key, Why.SAME_SEED), fresh_seeds=_rate(mine, key, Why.FRESH_SEED)
    )


def counts(trial: Trial, key: str) -> bool:
    """Return whether a rerun counts, i.e. its verdict shows whether the failure recurred."""
    return trial.verdict in {"valid", "invalid"} or bool(key and trial.signature == key)


def _rate(trials: Collection[Trial], key: str, why: Why) -> Rate:
    mine = [each for each in trials if each.why == why]
    return Rate(times=sum(each.signature == key for each in mine), of=len(mine))


def setting_key(plan: Plan) -> str:
    """Return twelve hex digits that identify a plan's settings, without name, seed and secrets.

    Runs with the same digits have the same settings.
    """
    told = _told(plan, {"name", "seed"})
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]


def setting_words(plan: Plan) -> str:
    """Return a plan's settings as text: `acks=all, rate=200, time_limit_s=30`.

    The text always contains `acks`. Other settings are included only if they differ from the
    default. The system, hosts, workload and fault families are left out, because tables have
    columns for them.
    """
    return ", ".join([f"acks={plan.acks}", *_named(_told(plan, _NAMED_ELSEWHERE))])


def _told(plan: Plan, but: set[str]) -> Mapping[str, object]:
    """Return a plan's settings that differ from their defaults, with secrets hidden."""
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
