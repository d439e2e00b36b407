"""Brokers that ended for want of file handles or memory by a fault, and some that did not."""

import json

from results.record.clock import NS_PER_S
from results.record.milestones import ENDED
from results.record.terms import UNMEASURED, Validity
from tests.broken.brokers import end_broker
from tests.broken.corpus import CALM, Spot, broken, innocent
from tests.broken.record import Record, Row

_EMFILE = "ERROR Error while writing to checkpoint file x.tmp (Too many open files)"
_CRASH = "ERROR Halting: java.lang.NullPointerException"
_GAVE_UP = "ERROR Shutting down because we were unable to register with the controller quorum."
_OUTSIDE = "broker-hit-from-outside"


def _wanting(record: Record, of: str, *, instead_of: str = "kill", **healed: object) -> Row:
    """Have a fault be one that leaves its broker too little of something; return its row."""
    (fault,) = record.rows("faults", kind=instead_of)
    lives = {"incarnations": dict.fromkeys(fault["targets"], 1)}
    processes = json.loads(fault["effect"]).get("processes", [])
    effect = {"kind": of, "processes": processes}
    family = {"kind": "any-of-these", "family": "resources", "links": [], **lives}
    heal = {**json.loads(fault["heal_effect"]), "kind": "freed", "kills": {}, "said": {}, **healed}
    record.plan.pop("faults", None)
    record.plan["nemesis"] = ["resources", "partition" if instead_of == "kill" else "kill"]
    fault.update(
        kind="any-of-these", spec=json.dumps({**json.loads(fault["spec"]), **family}),
        effect=json.dumps(effect), heal_effect=json.dumps(heal),
    )  # fmt: skip
    return fault


def _ended(
    record: Record, node: str, at_ns: int, *, code: str, said: str = "", life: int = 1
) -> None:
    detail = {"node": node, "incarnation": f"{life}", "code": code, "said": said}
    record.milestones.append({"name": ENDED, "at_ns": at_ns, "detail": detail})
    record.milestones.sort(key=lambda each: int(each["at_ns"]))


def _ended_for_want(record: Record, of: str, *, code: str, said: str = "", kills: int = 0) -> Row:
    """Have the kill be a fault that leaves the broker too little, and the broker end in it."""
    fault = _wanting(record, of)
    (victim,) = fault["targets"]
    heal = json.loads(fault["heal_effect"]) | {"kills": {victim: kills}}
    fault["heal_effect"] = json.dumps(heal)
    _ended(record, victim, int(fault["confirmed_ns"]) + 1, code=code, said=said)
    return fault


@innocent(base="log", moments=("calm",))
def a_broker_without_handles_halts(record: Record, _spot: Spot) -> None:
    """Its log folder fails with the first file that it cannot open, and it has no other."""
    _ended_for_want(record, "handles", code="1", said=_EMFILE)


@innocent(base="log", moments=("calm",))
def a_broker_without_handles_lives_until_the_crowd_goes(record: Record, _spot: Spot) -> None:
    """What it has open stays open: it fetches, and answers those whose connections it has."""
    fault = record.add("faults", record.rows("faults", kind="kill")[0], fault_id=3)
    main_ns, (victim,) = record.stone("main"), fault["targets"]
    fault.update(
        requested_ns=main_ns + 1, confirmed_ns=main_ns + NS_PER_S,
        healed_ns=main_ns + 3 * NS_PER_S, kind="any-of-these",
        spec='{"kind": "any-of-these", "family": "resources", "begun": true}',
        effect=json.dumps({"kind": "handles", "incarnations": {victim: 1}, "lasting": False}),
        heal_effect=json.dumps({"kind": "freed", "kills": {}, "said": {}}),
    )  # fmt: skip
    record.plan.pop("faults")
    record.plan["nemesis"] = ["resources", "kill", "partition"]


def _not_confirmed(fault: Row) -> None:
    effect = json.dumps({"without_effect": UNMEASURED})
    fault.update(kind="any-handles", confirmed_ns=None, effect=effect)


@innocent(base="log", moments=("calm",))
def a_broker_halts_for_want_of_handles_between_two_looks(record: Record, _spot: Spot) -> None:
    """Nobody saw that none was left; its last words say so."""
    fault = _ended_for_want(record, "handles", code="1", said=_EMFILE)
    main_ns = record.stone("main")
    seen = {
        "fault_id": 3, "requested_ns": main_ns + 1, "confirmed_ns": main_ns + NS_PER_S,
        "healed_ns": main_ns + 3 * NS_PER_S, "effect": json.dumps({"kind": "processor"}),
    }  # fmt: skip
    record.add("faults", fault, **seen)
    _not_confirmed(fault)


@innocent(base="log", moments=("isolate",))
@innocent(base="txn", moments=("isolate",))
def a_broker_with_little_of_a_core_loses_its_session(record: Record, _spot: Spot) -> None:
    """Its heartbeats come late: what it led is led by others, and it learns that late."""
    _wanting(record, "processor", instead_of="isolate")


@innocent(base="log", moments=("kill",))
def a_broker_gives_up_its_start_while_another_gets_little_of_a_core(
    record: Record, _spot: Spot
) -> None:
    """A start waits so long for a controller by the plan: that one answers late, or not at all."""
    record.plan["broker"] = {"initial.broker.registration.timeout.ms": "30000"}
    (fault,) = record.rows("faults", kind="kill")
    (victim,) = fault["targets"]
    slow = record.add("faults", _wanting(record, "processor", instead_of="isolate"), fault_id=3)
    begun_ns = record.stone("main") + NS_PER_S
    slow.update(
        targets=["n1"], requested_ns=begun_ns, confirmed_ns=begun_ns + NS_PER_S,
        healed_ns=record.stone("healed"),
    )  # fmt: skip
    late_ns = int(fault["requested_ns"]) + 30 * NS_PER_S
    fault["healed_ns"] = late_ns + 1
    _ended(record, victim, late_ns, code="1", said=_GAVE_UP, life=2)


@innocent(base="log", moments=("calm",))
@innocent(base="txn", moments=("calm",))
def the_kernel_kills_a_broker_that_gets_too_little_memory(record: Record, _spot: Spot) -> None:
    """The kernel counted the kill; SIGKILL leaves the page cache."""
    _ended_for_want(record, "memory", code="-9", kills=1)


@broken("broker-ended", row="resources", base="log", moments=("kill",), says="exit code 1")
def a_broker_without_handles_halts_for_another_reason(record: Record, _spot: Spot) -> None:
    _ended_for_want(record, "handles", code="1", said="ERROR Halting: truncation is not allowed")


@broken("broker-ended", row="resources", base="log", moments=("kill",), says="NullPointer")
def a_broker_that_cannot_accept_halts_for_another_reason(record: Record, _spot: Spot) -> None:
    """Who accepts connections lacks handles as well, says so, and goes on."""
    accepting = "ERROR Error while accepting connection (java.io.IOException: Too many open files)"
    _ended_for_want(record, "handles", code="1", said=f"{accepting}\n{_CRASH}")


@broken("broker-ended", row="resources", base="log", moments=("kill",), says="NullPointer")
def the_next_life_crashes_soon_after_want_of_handles(record: Record, _spot: Spot) -> None:
    fault = _ended_for_want(record, "handles", code="1")
    (victim,) = fault["targets"]
    heal = json.loads(fault["heal_effect"]) | {"said": {victim: [_EMFILE]}}
    fault["heal_effect"] = json.dumps(heal)
    soon_ns = int(fault["healed_ns"]) + 12 * NS_PER_S
    end_broker(record, victim, soon_ns, code="1", said=_CRASH)


@broken("broker-ended", row="resources", base="log", moments=("kill",), says="n1 ended")
def another_broker_ends_while_one_has_no_handles(record: Record, _spot: Spot) -> None:
    fault = _wanting(record, "handles")
    _ended(record, "n1", int(fault["confirmed_ns"]) + 1, code="1", said=_EMFILE)


@broken("broker-ended", row="resources", base="log", moments=(CALM,), says="exit code 1")
def a_broker_ends_though_it_was_not_seen_to_lack_handles(record: Record, _spot: Spot) -> None:
    _not_confirmed(_ended_for_want(record, "handles", code="1", said=_CRASH))


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


@broken(
    _OUTSIDE, row="resources", base="log", moments=("kill",), valid=Validity.UNKNOWN,
    says="SIGKILL",
)  # fmt: skip
def somebody_kills_the_next_life_of_one_that_the_kernel_killed(record: Record, _spot: Spot) -> None:
    fault = _ended_for_want(record, "memory", code="-9", kills=1)
    (victim,) = fault["targets"]
    end_broker(record, victim, int(fault["healed_ns"]) + NS_PER_S, code="-9", said="")
