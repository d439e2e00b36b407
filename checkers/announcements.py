"""What leaders announced: up to where a partition is committed, as observers were answered.

Only a broker that leads answers ListOffsets; the answer names its epoch and, as the latest offset
for readers of uncommitted data, its high watermark. What lies below is committed: every later
leader has it. Since 2.2 (KIP-207) a new leader does not answer before its own high watermark has
come to where its epoch began, so that no answer lags behind those of earlier epochs. Older brokers
announce nothing: until 2.1 (KIP-320) they name no epoch, and 2.1 lags.
"""

from dataclasses import dataclass

import numpy as np

from checkers.columns import NONE, Ints, Mask, equal, ints, select
from checkers.facts import RunFacts
from checkers.findings import known, seconds
from checkers.group import Group
from results.record.plan import Plan
from results.record.terms import Source
from results.record.verdict import Evidence

FIRST_ANNOUNCING = (2, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """One answer of a leader.

    Attributes:
        broker, epoch: Who led, and in which epoch.
        high_watermark: Below it, everything is committed.
        asked_ns, observed_ns: Before the question, and after its answer; -1 if not recorded.
    """

    broker: int
    epoch: int
    high_watermark: int
    asked_ns: int
    observed_ns: int

    @property
    def text(self) -> str:
        """For people: `broker 1 announced the high watermark 3 of epoch 0 at 31.204 s`."""
        return (
            f"broker {self.broker} announced the high watermark {self.high_watermark} of epoch"
            f" {self.epoch} at {seconds(self.observed_ns)}"
        )

    def evidence(self, word: str) -> Evidence:
        """Return all of it; names begin with a word: `announced_epoch`."""
        return {
            f"{word}_by": self.broker,
            f"{word}_epoch": self.epoch,
            f"{word}_high_watermark": self.high_watermark,
            f"{word}_asked_ns": known(self.asked_ns),
            f"{word}_observed_ns": known(self.observed_ns),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays have no one answer to ==.
class Announcements:
    """Answers of leaders, by epoch and then by when they were asked."""

    brokers: Ints
    epochs: Ints
    marks: Ints
    asked_ns: Ints
    observed_ns: Ints

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.marks)

    def __getitem__(self, index: int) -> Announcement:
        """Return one of them."""
        return Announcement(
            broker=int(self.brokers[index]),
            epoch=int(self.epochs[index]),
            high_watermark=int(self.marks[index]),
            asked_ns=int(self.asked_ns[index]),
            observed_ns=int(self.observed_ns[index]),
        )

    def where(self, mask: Mask) -> "Announcements":
        """Return those where a mask is true."""
        return Announcements(
            brokers=self.brokers[mask],
            epochs=self.epochs[mask],
            marks=self.marks[mask],
            asked_ns=self.asked_ns[mask],
            observed_ns=self.observed_ns[mask],
        )

    def highest_before(self, epochs: Ints) -> Ints:
        """Return for each epoch the index of the highest mark of all epochs before it, or -1."""
        below = np.searchsorted(self.epochs, epochs, side="left")
        return latest(first_highest(self.marks), below)


def first_highest(marks: Ints) -> Ints:
    """Return at each place where the highest mark up to there stands, the first of equal ones."""
    top = np.maximum.accumulate(marks)
    fresh = np.ones(len(marks), dtype=np.bool_)
    fresh[1:] = top[1:] > top[:-1]
    return np.maximum.accumulate(np.where(fresh, np.arange(len(marks)), 0))


def latest(items: Ints, counts: Ints) -> Ints:
    """Return for each count the last of so many first items, `NONE` of none."""
    return np.append(items, NONE)[counts - 1]


def announcements(group: Group) -> Announcements:
    """Return what leaders of a partition announced."""
    rows = group.table("leadership")
    told = equal(rows, "source", Source.LIST_OFFSETS)
    for name in ("leader", "leader_epoch", "high_watermark"):
        told &= ints(rows, name) >= 0
    rows = select(rows, told)
    order = np.lexsort((ints(rows, "asked_ns"), ints(rows, "leader_epoch")))
    return Announcements(
        brokers=ints(rows, "leader")[order],
        epochs=ints(rows, "leader_epoch")[order],
        marks=ints(rows, "high_watermark")[order],
        asked_ns=ints(rows, "asked_ns")[order],
        observed_ns=ints(rows, "observed_ns")[order],
    )


def announcing(plan: Plan) -> bool:
    """Tell whether leaders of a plan's Kafka announce high watermarks at all."""
    return plan.version_numbers >= FIRST_ANNOUNCING


def announces(facts: RunFacts) -> bool:
    """Tell whether leaders of the run's Kafka announce high watermarks at all."""
    return announcing(facts.plan)
