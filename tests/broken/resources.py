"""Brokers that ended for want of file handles or memory by a fault, and some that did not."""

import json

from results.record.milestones import ENDED
from results.record.terms import Validity
from tests.broken.corpus import Spot, broken, innocent
from tests.broken.record import Record

_EMFILE = "ERROR Error while writing to checkpoint file x.tmp (Too many open files)"
_OUTSIDE = "broker-hit-from-outside"


def _ended_for_want(record: Record, of: str, *, code: str, said: str = "", kills: int = 0) -> None:
    """Have the kill be a fault that leaves the broker too little, and the broker end in it."""
    (fault,) = record.rows("faults", kind="kill")
    (victim,) = fault["targets"]
    effect, healed = json.loads(fault["effect"]), json.loads(fault["heal_effect"])
    spec = {**json.loads(fault["spec"]), "kind": "any-of-these", "family": "resources"}
    healed |= {"kind": "freed", "kills": {victim: kills}, "said": {}}
    record.plan.pop("faults")
    record.plan["nemesis"] = ["resources", "partition"]
    fault.update(
        kind="any-of-these", spec=json.dumps(spec), effect=json.dumps({**effect, "kind": of}),
        heal_effect=json.dumps(healed),
    )  # fmt: skip
    detail = {"node": victim, "incarnation": "1", "code": code, "said": said}
    at_ns = int(fault["confirmed_ns"]) + 1
    record.milestones.append({"name": ENDED, "at_ns": at_ns, "detail": detail})
    record.milestones.sort(key=lambda each: int(each["at_ns"]))


@innocent(base="log", moments=("calm",))
def a_broker_without_handles_halts(record: Record, _spot: Spot) -> None:
    """Its log folder fails with the first file that it cannot open, and it has no other."""
    _ended_for_want(record, "handles", code="1", said=_EMFILE)


@innocent(base="log", moments=("calm",))
@innocent(base="txn", moments=("calm",))
def the_kernel_kills_a_broker_that_gets_too_little_memory(record: Record, _spot: Spot) -> None:
    """The kernel counted the kill; SIGKILL leaves the page cache."""
    _ended_for_want(record, "memory", code="-9", kills=1)


@broken("broker-ended", row="resources", base="log", moments=("kill",), says="exit code 1")
def a_broker_without_handles_halts_for_another_reason(record: Record, _spot: Spot) -> None:
    _ended_for_want(record, "handles", code="1", said="ERROR Halting: truncation is not allowed")


@broken("broker-ended", row="resources", base="log", moments=("kill",), says="Java heap space")
def a_broker_without_memory_fills_its_heap(record: Record, _spot: Spot) -> None:
    said = "Terminating due to java.lang.OutOfMemoryError: Java heap space"
    _ended_for_want(record, "memory", code="3", said=said, kills=1)


@broken(
    _OUTSIDE, row="resources", base="log", moments=("kill",), valid=Validity.UNKNOWN,
    says="SIGKILL",
)  # fmt: skip
def somebody_kills_a_broker_before_the_kernel_does(record: Record, _spot: Spot) -> None:
    _ended_for_want(record, "memory", code="-9", kills=0)
