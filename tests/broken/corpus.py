"""The corpus: every change to a stored run, with what must come of it.

    @broken("lost-write", row="S6", base="log")
    def test_name(record: Record, spot: Spot) -> None: ...

makes a change for each moment of the base (`MOMENTS`): one in the calm, one while each of its
faults was in force.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkers.changes import SETTLED_NS
from results.record.terms import Validity
from tests.broken.record import Record, Row

INNOCENT = "innocent"
"""The row of changes that a correct Kafka may cause."""
BASES = Path(__file__).with_name("bases")
CALM = "calm"
QUIET = "quiet"
"""Long after the last fault, and before clients are stopped."""
MOMENTS = {
    "log": (CALM, "kill", "isolate"),
    "txn": (CALM, "kill", "isolate"),
    "groups": (CALM, "kill", "isolate"),
    "disks": (CALM, "power-loss", "unclean-election"),
    "contents": (CALM, "kill", "isolate"),
    "pipeline": (CALM, "kill", "isolate"),
    "shares": (CALM, "kill", "isolate"),
    "keyed": (QUIET,),  # Of what was sent earlier its cleaners have left next to nothing.
}
"""Of each base: the kinds of its faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A message that was acknowledged in the calm, or while a fault was in force.

    Attributes:
        send: Its row.
        epoch: Of the leader that wrote it.
    """

    send: Row
    epoch: int

    @property
    def topic(self) -> str:
        return str(self.send["topic"])

    @property
    def partition(self) -> int:
        return int(self.send["partition"])

    @property
    def place(self) -> dict[str, Any]:
        """What its partition's rows have in common."""
        return {"topic": self.topic, "partition": self.partition}

    @property
    def offset(self) -> int:
        return int(self.send["offset"])

    @property
    def value(self) -> int:
        return int(self.send["value"])

    @property
    def at_ns(self) -> int:
        """When it was acknowledged."""
        return int(self.send["complete_ns"])


Make = Callable[[Record, Spot], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change to one stored run.

    Attributes:
        name: For people, and of its folder.
        base: Which run.
        moment: When in it: one of `MOMENTS`.
        row: Of the page that names what a verdict must not miss.
        make: Changes the record.
        finds: The anomaly that must come out; empty: none but what the base has.
        says: What must be told of it, or of why nobody knows.
        valid: The verdict.
    """

    name: str
    base: str
    moment: str
    row: str
    make: Make
    finds: str
    says: str
    valid: Validity

    def save(self, folder: Path) -> Path:
        """Write the changed run to a folder of its own; return that.

        Raises:
            ValueError: The change leaves everything as it is.
        """
        return self.record().save(folder / "broken" / self.name)

    def record(self) -> Record:
        """Return the changed run.

        Raises:
            ValueError: The change leaves everything as it is.
        """
        record = Record(BASES / self.base)
        self.make(record, spot(record, self.moment))
        if not record.changed:
            raise ValueError(f"{self.name} changes nothing: there must be a record that it meets")
        return record


CHANGES: list[Change] = []


def broken(
    finds: str,
    *,
    row: str,
    base: str,
    moments: Sequence[str] = (),
    valid: Validity = Validity.INVALID,
    says: str = "",
) -> Callable[[Make], Make]:
    """Take a function into the corpus that leaves a record as a broken broker would have."""

    def take(make: Make) -> Make:
        for moment in moments or MOMENTS[base]:
            name = f"{make.__name__.replace('_', '-')}.{base}.{moment}"
            CHANGES.append(
                Change(
                    name=name,
                    base=base,
                    moment=moment,
                    row=row,
                    make=make,
                    finds=finds,
                    says=says,
                    valid=valid,
                )
            )
        return make

    return take


def innocent(*, base: str, moments: Sequence[str] = ()) -> Callable[[Make], Make]:
    """Take a function into the corpus that leaves a record as a correct Kafka may."""
    return broken("", row=INNOCENT, base=base, moments=moments, valid=Validity.VALID)


def spot(record: Record, moment: str) -> Spot:
    """Return the acknowledged message in the middle of the calm before all faults, or of a fault.

    Where none was sent and acknowledged within a fault: of those that were under way.
    """
    from_ns, to_ns = _time_of(record, moment)
    acked = record.rows("sends", acked=True, outcome="ok")
    if record.plan.get("keys"):  # Of others a cleaner has left nothing.
        final = record.rows("replica_records", snapshot="final")
        stand = {(row["topic"], row["partition"], row["value"]) for row in final}
        acked = [row for row in acked if (row["topic"], row["partition"], row["value"]) in stand]
    within = [row for row in acked if row["invoke_ns"] > from_ns and row["complete_ns"] < to_ns]
    under_way = [row for row in acked if row["invoke_ns"] < to_ns and row["complete_ns"] > from_ns]
    sends = sorted(within or under_way, key=lambda row: int(row["complete_ns"]))
    return spot_of(record, sends[len(sends) // 2])


def _time_of(record: Record, moment: str) -> tuple[int, int]:
    times = {each["name"]: int(each["at_ns"]) for each in record.milestones}
    if moment == CALM:
        return times["warmup"], times["main"]
    if moment == QUIET:
        healed_ns = max(int(row["healed_ns"]) for row in record.rows("faults"))
        return healed_ns + SETTLED_NS, times["main-ended"]
    (fault,) = record.rows("faults", kind=moment)
    # All who were in sync are dead when that one is confirmed: nothing is acknowledged then.
    began = "requested_ns" if moment == "unclean-election" else "confirmed_ns"
    return int(fault[began]), int(fault["healed_ns"])


def spot_of(record: Record, send: Row) -> Spot:
    """Return the spot of an acknowledged message."""
    place = {"topic": send["topic"], "partition": send["partition"]}
    stored = record.rows("replica_records", snapshot="final", offset=send["offset"], **place)
    return Spot(send=send, epoch=stored[0]["leader_epoch"])
