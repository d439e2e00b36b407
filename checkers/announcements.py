"""The high watermarks that leaders announced in their answers to ListOffsets.

Only a leader answers ListOffsets. The answer names the leader's epoch. For read_uncommitted
readers, the latest offset in the answer is the leader's high watermark. Records below the high
watermark are committed, and every later leader has them. Since 2.2 (KIP-207), a new leader answers
only after the high watermark has reached the first offset of the new epoch. So the new answer is
never lower than an answer of an earlier epoch. The answers of older brokers do not count. Before
2.1 (KIP-320), these answers name no epoch. In 2.1, the high watermark can be lower than an earlier
high watermark.
"""

from dataclasses import dataclass

import numpy as np

from checkers.columns import NEVER, NONE, Ints, Mask, equal, ints, select
from checkers.facts import RunFacts
from checkers.findings import known, seconds
from checkers.group import Group
from results.record.plan import Plan
from results.record.terms import Source
from results.record.verdict import Evidence

FIRST_ANNOUNCING = (2, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """One answer of a leader to ListOffsets.

    Attributes:
        broker, epoch: The leader, and its leader epoch.
        high_watermark: Records below this offset are committed.
        asked_ns, observed_ns: The times of the request and of its answer; -1 if not recorded.
    """

    broker: int
    epoch: int
    high_watermark: int
    asked_ns: int
    observed_ns: int

    @property
    def until_ns(self) -> int:
        """The time by which the high watermark was true; `NEVER` if it is unknown."""
        return self.observed_ns if self.observed_ns >= 0 else NEVER

    @property
    def text(self) -> str:
        """The announcement as a phrase for a report.

        Example: `broker 1 announced the high watermark 3 of epoch 0 at 31.204 s`.
        """
        return (
            f"broker {self.broker} announced the high watermark {self.high_watermark} of epoch"
            f" {self.epoch} at {seconds(self.observed_ns)}"
        )

    def evidence(self, word: str) -> Evidence:
        """Return the announcement as evidence.

        Args:
            word: The first word of all keys, such as `announced` in `announced_epoch`.
        """
        return {
            f"{word}_by": self.broker,
            f"{word}_epoch": self.epoch,
            f"{word}_high_watermark": self.high_watermark,
            f"{word}_asked_ns": known(self.asked_ns),
            f"{word}_observed_ns": known(self.observed_ns),
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # Arrays cannot be compared with ==.
class Announcements:
    """The answers of leaders to ListOffsets, sorted by epoch, then by the time of the request."""

    brokers: Ints
    epochs: Ints
    marks: Ints
    asked_ns: Ints
    observed_ns: Ints

    def __len__(self) -> int:
        """Return the number of announcements."""
        return len(self.marks)

    def __getitem__(self, index: int) -> Announcement:
        """Return the announcement at an index."""
        return Announcement(
            broker=int(self.brokers[index]),
            epoch=int(self.epochs[index]),
            high_watermark=int(self.marks[index]),
            asked_ns=int(self.asked_ns[index]),
            observed_ns=int(self.observed_ns[index]),
        )

    def where(self, mask: Mask) -> "Announcements":
        """Return the announcements for which the mask is true."""
        return Announcements(
            brokers=self.brokers[mask],
            epochs=self.epochs[mask],
            marks=self.marks[mask],
            asked_ns=self.asked_ns[mask],
            observed_ns=self.observed_ns[mask],
        )

    def highest_before(self, epochs: Ints) -> Ints:
        """Return, for each epoch, the index of the highest mark of earlier epochs, or -1."""
        below = np.searchsorted(self.epochs, epochs, side="left")
        return latest(first_highest(self.marks), below)


def first_highest(marks: Ints) -> Ints:
    """Return, for each index, the index at which the running maximum was first reached."""
    top = np.maximum.accumulate(marks)
    fresh = np.ones(len(marks), dtype=np.bool_)
    fresh[1:] = top[1:] > top[:-1]
    return np.maximum.accumulate(np.where(fresh, np.arange(len(marks)), 0))


def latest(items: Ints, counts: Ints) -> Ints:
    """Return `items[count - 1]` for each count, or `NONE` if the count is 0."""
    return np.append(items, NONE)[counts - 1]


def announcements(group: Group) -> Announcements:
    """Return the high watermarks that the leaders of a partition announced."""
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
    """Return whether leaders in the plan's Kafka version announce high watermarks."""
    return plan.version_numbers >= FIRST_ANNOUNCING


def announces(facts: RunFacts) -> bool:
    """Return whether leaders in the run's Kafka version announce high watermarks."""
    return announcing(facts.plan)
