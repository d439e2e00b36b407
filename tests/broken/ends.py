"""Brokers that end, hang or refuse, ISRs that stay small, and what the harness itself got wrong."""

from results.record.clock import NS_PER_S
from results.record.milestones import ENDED, STACKS
from results.record.terms import Validity
from tests.broken.answers import take_nothing
from tests.broken.brokers import end_broker
from tests.broken.corpus import CALM, QUIET, Spot, broken
from tests.broken.leaders import change_isr, depose
from tests.broken.record import Record, Row

_VICTIM = "n2"
"""Each fault of the base hits it, so that it leads nothing in the end, not even the quorum."""
_DEADLOCK = 'a deadlock: "data-plane-kafka-request-handler-3" waits for "ReplicaFetcherThread-0-1"'
_OUTSIDE = "broker-hit-from-outside"
_FOREVER = 1 << 62


def _healed_ns(record: Record) -> int:
    return max(int(row["healed_ns"]) for row in record.rows("faults"))


def _time_ns(record: Record, name: str) -> int:
    return next(int(each["at_ns"]) for each in record.milestones if each["name"] == name)


def _note(record: Record, name: str, at_ns: int, **detail: str) -> None:
    record.milestones.append({"name": name, "at_ns": at_ns, "detail": detail})
    record.milestones.sort(key=lambda each: int(each["at_ns"]))


def _not_recovered(record: Record, why: str) -> None:
    for each in record.milestones:
        if each["name"] == "recovered":
            each["detail"]["failed"] = why


def _leader_alone(row: Row) -> list[int]:
    return [row["leader"]] if row["leader"] >= 0 else []


def _without_victim(row: Row) -> list[int]:
    return [broker for broker in row["isr"] if broker != int(_VICTIM[1:])]


@broken("unavailable", row="S4", base="log")
def a_partition_takes_nothing_any_more(record: Record, spot: Spot) -> None:
    take_nothing(record, spot, spot.at_ns)


@broken("unavailable", row="S4", base="log", moments=("kill", "isolate"))
def a_partition_takes_nothing_after_the_last_heal(record: Record, spot: Spot) -> None:
    take_nothing(record, spot, _healed_ns(record))


@broken("", row="S4", base="log", valid=Validity.UNKNOWN, says="accepted no message after")
def a_partition_takes_nothing_and_the_look_ends_before_the_budget(
    record: Record, spot: Spot
) -> None:
    record.plan["budgets"]["unavailable_s"] = 30.0
    take_nothing(record, spot, _healed_ns(record) - NS_PER_S)


@broken("slow-election", row="S4", base="log")
def nobody_leads_a_partition_any_more(record: Record, spot: Spot) -> None:
    _without_leader(record, spot)


@broken("unavailable", row="H2", base="log", says="a deadlock")
def request_threads_deadlock(record: Record, spot: Spot) -> None:
    take_nothing(record, spot, spot.at_ns)
    _note(record, STACKS, _time_ns(record, "final-reads") - 1, n1="", n2="", n3=_DEADLOCK)


@broken("slow-election", row="H2", base="log", says="a deadlock")
def the_controllers_thread_deadlocks(record: Record, spot: Spot) -> None:
    _without_leader(record, spot)
    _note(record, STACKS, _time_ns(record, "final-reads") - 1, n1=_DEADLOCK, n2="", n3="")


def _without_leader(record: Record, spot: Spot) -> None:
    take_nothing(record, spot, spot.at_ns)
    since_ns = spot.at_ns
    record.drop(
        "leadership",
        lambda row: (row["observed_ns"] or 0) >= since_ns,
        source="list-offsets",
        **spot.place,
    )
    depose(record, spot, since_ns)
    record.drop("polls", lambda row: row["complete_ns"] >= since_ns, **spot.place)
    for read in record.rows("final_reads", **spot.place):
        read |= {"reached": 0, "complete": False}
    _not_recovered(record, f"{spot.topic}-{spot.partition} has no leader")


@broken("isr-not-restored", row="catalogue", base="log", moments=("kill", "isolate"))
def a_follower_never_comes_back_to_the_isr(record: Record, spot: Spot) -> None:
    change_isr(record, spot, (spot.at_ns, _FOREVER), _without_victim)
    _not_recovered(record, f"the ISR lacks {_VICTIM}")


@broken("acknowledged-below-min-isr", row="S10b", base="log")
def acknowledged_while_the_isr_is_one(record: Record, spot: Spot) -> None:
    change_isr(record, spot, (spot.at_ns - 2 * NS_PER_S, spot.at_ns + 18 * NS_PER_S), _leader_alone)


@broken("acknowledged-below-min-isr", row="S10b", base="log")
def acknowledged_with_an_isr_of_one_to_the_end(record: Record, spot: Spot) -> None:
    change_isr(record, spot, (spot.at_ns, _FOREVER), _leader_alone)
    _not_recovered(record, "the ISR is the leader alone")


@broken("broker-ended", row="H1", base="log", moments=(QUIET,), says="exit code 1")
def a_broker_halts(record: Record, spot: Spot) -> None:
    said = "ERROR Halting because log truncation is not allowed"
    end_broker(record, _VICTIM, spot.at_ns, code="1", said=said)


@broken("broker-ended", row="H1", base="log", moments=(QUIET,), says="OutOfMemoryError")
def a_broker_runs_out_of_memory(record: Record, spot: Spot) -> None:
    said = "Terminating due to java.lang.OutOfMemoryError: Java heap space"
    end_broker(record, _VICTIM, spot.at_ns, code="3", said=said)


@broken("broker-ended", row="H1", base="log", moments=("kill",), says="SIGSEGV")
def a_broker_crashes_before_it_is_killed(record: Record, spot: Spot) -> None:
    _end_before_the_kill(record, code="-11", said="SIGSEGV in libzstd-jni.so")


@broken("broker-ended", row="H1", base="log", moments=("kill",), says="exit code 1")
def a_broker_exits_before_it_is_killed(record: Record, spot: Spot) -> None:
    _end_before_the_kill(record, code="1", said="FATAL Shutdown broker: disk failed")


@broken(_OUTSIDE, row="H1", base="log", moments=(QUIET,), valid=Validity.UNKNOWN, says="SIGKILL")
def the_kernel_kills_a_broker(record: Record, spot: Spot) -> None:
    end_broker(record, _VICTIM, spot.at_ns, code="-9", said="")


@broken(_OUTSIDE, row="H1", base="log", moments=(QUIET,), valid=Validity.UNKNOWN, says="SIGSTOP")
def somebody_stops_a_broker(record: Record, spot: Spot) -> None:
    end_broker(record, _VICTIM, spot.at_ns, code="stopped", said="")


@broken(_OUTSIDE, row="H1", base="log", moments=("kill",), valid=Validity.UNKNOWN, says="SIGTERM")
def somebody_ends_a_broker_before_it_is_killed(record: Record, spot: Spot) -> None:
    _end_before_the_kill(record, code="143", said="")


def _end_before_the_kill(record: Record, **detail: str) -> None:
    at_ns = _killed_in_vain_ns(record)
    _note(record, ENDED, at_ns, node=_VICTIM, incarnation="1", **detail)


def _killed_in_vain_ns(record: Record) -> int:
    """Have the fault that kills find its broker dead; return when that died."""
    (fault,) = record.rows("faults", kind="kill")
    fault |= {"confirmed_ns": None, "effect": '{"without_effect": "n2 was not running"}'}
    return int(fault["requested_ns"]) - 20_000_000


@broken("malformed-history", row="harness", base="log", moments=(CALM,), valid=Validity.UNKNOWN)
def an_op_is_recorded_twice(record: Record, spot: Spot) -> None:
    (op,) = record.rows("ops", op_id=spot.send["op_id"])
    record.add("ops", op)


@broken("malformed-history", row="harness", base="log", moments=("kill",), valid=Validity.UNKNOWN)
def a_process_goes_on_after_an_op_of_unknown_outcome(record: Record, spot: Spot) -> None:
    (op,) = record.rows("ops", op_id=spot.send["op_id"])
    op |= {"outcome": "info", "error": "_TIMED_OUT"}


@broken("not-enough-traffic", row="harness", base="log", moments=(CALM,), valid=Validity.UNKNOWN)
def hardly_anything_is_sent_in_the_main_phase(record: Record, spot: Spot) -> None:
    record.plan["minimums"]["ok_sends"] = len(record.rows("sends", phase="main")) + 1


@broken(
    "fault-without-effect", row="harness", base="log", moments=("kill",), valid=Validity.UNKNOWN
)
def a_fault_is_never_confirmed(record: Record, spot: Spot) -> None:
    _killed_in_vain_ns(record)


@broken("fault-without-effect", row="harness", base="log", moments=(CALM,), valid=Validity.UNKNOWN)
def no_fault_of_any_family_is_confirmed(record: Record, spot: Spot) -> None:
    """The plan asks for all families, so it names none."""
    del record.plan["faults"]
    record.plan |= {"nemesis": ["all"], "drawn": True}
    for fault in record.rows("faults"):
        fault |= {"confirmed_ns": None, "effect": '{"without_effect": "nothing changed"}'}


@broken("host-not-restored", row="harness", base="log", moments=(CALM,), valid=Validity.UNKNOWN)
def a_rule_of_a_firewall_is_left(record: Record, spot: Spot) -> None:
    for each in record.milestones:
        if each["name"] == "audited":
            each["detail"]["table inet logquake"] = "is still there"
