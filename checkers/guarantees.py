"""Build sentences for reports: the guarantees that a run's configuration makes."""

from collections.abc import Mapping

from checkers.broker_ended import CHECKER as BROKER_ENDED
from checkers.facts import RunFacts
from checkers.protocol import Promise
from checkers.unclean_orders import KIND as UNCLEAN_ORDER
from results.record.shares import has_shares
from results.record.systems import SystemKind

_UNCLEAN = "unclean.leader.election.enable"
_LOG = (
    "a partition has one log: its replicas hold the same committed records, and readers get"
    " exactly these records, in their order"
)
_EPOCHS = "a leader epoch has one leader, and epochs only grow; the same holds for the controllers"
_GROUPS = "a group continues at its committed offset"
_SHARES = (
    "a share group delivers each record at least once, but not again after it confirmed the"
    " record as accepted or rejected"
)
_NEW_EPOCH = (
    "after some errors librdkafka renumbers its messages in a new producer epoch; brokers then"
    " treat a resent message as a new one, and may store it twice (librdkafka#4953, KIP-360)"
)
_CLIENTS = "a client reports what goes wrong, and does not end the program that uses it"
_SERVERS = "a broker runs until it is asked to stop, or a fault hits it"


def guarantees(facts: RunFacts) -> tuple[str, ...]:
    """Return one sentence for each promise that the plan's settings make or give up."""
    return tuple(promises(facts).values())


def promises(facts: RunFacts) -> Mapping[Promise, str]:
    """Return the sentence of `guarantees` for each promise."""
    made = {
        Promise.STORED: _acks(facts),
        **({} if _of_its_own(facts) else {Promise.LEADERS: _unclean(facts)}),
        Promise.ONCE: _duplicates(facts),
        Promise.LOG: _LOG,
        Promise.EPOCHS: _EPOCHS,
    }
    if facts.plan.transactional:
        made[Promise.TRANSACTIONS] = _transactions(facts)
    if facts.plan.workload == "groups":  # A pipeline commits its offsets in its transactions.
        made[Promise.GROUPS] = _GROUPS
    if has_shares(facts.plan):
        made[Promise.GROUPS] = _SHARES
    if BROKER_ENDED.applies(facts):  # Old records do not show whether brokers were watched.
        made[Promise.SERVERS] = _SERVERS
    if facts.workers_watched:  # Old records do not show this either.
        made[Promise.CLIENTS] = _CLIENTS
    if facts.plan.workload != "script":  # A scenario has its own waits and time limits.
        made[Promise.RECOVERY] = _recovery(facts)
    return made


def _of_its_own(facts: RunFacts) -> bool:
    """Return whether the system is a custom program.

    Such a program may not have Kafka's settings.
    """
    return facts.plan.named.kind is SystemKind.COMMAND


def given_up(facts: RunFacts) -> frozenset[Promise]:
    """Return the promises that the plan's settings give up completely."""
    return frozenset({Promise.STORED}) if facts.no_acks else frozenset()


def _acks(facts: RunFacts) -> str:
    plan = facts.plan
    if facts.no_acks:
        return "acks=0: no message is ever acknowledged, so every message may be lost"
    if facts.weak_acks:
        return (
            "acks=1: only the leader must store a message before its acknowledgement; the loss"
            " of the leader may lose the message"
        )
    if _of_its_own(facts):
        return "an acknowledged message is still stored at the end"
    if "min.insync.replicas" in facts.declared.unread:
        return (
            "acks=all: an acknowledged message is in every in-sync replica, but there may be only"
            " one, because min.insync.replicas could not be read"
        )
    held = f"acks=all with min.insync.replicas {plan.min_insync} of {plan.replication}"
    spare = plan.min_insync - 1
    if spare <= 0:
        return (
            f"{held}: an acknowledged message is in every in-sync replica, but there may be"
            " only one"
        )
    brokers = "one broker" if spare == 1 else f"{spare} brokers"
    return f"{held}: an acknowledged message survives the loss of {brokers}"


def _unclean(facts: RunFacts) -> str:
    if _UNCLEAN in facts.declared.unread:
        return f"{_UNCLEAN} could not be read: a replica that lacks messages may become the leader"
    if facts.plan.unclean_elections:
        return "unclean elections are on: a replica that lacks messages may become the leader"
    planned = any(fault.kind == UNCLEAN_ORDER for fault in facts.plan.faults or ())
    if planned or facts.unclean_orders:  # Faults chosen at random are known only after they began.
        return "unclean elections are off, except those that faults order; those may lose messages"
    return "unclean elections are off: only an in-sync replica becomes the leader"


def _duplicates(facts: RunFacts) -> str:
    if facts.idempotent:
        once = "producers are idempotent: a message that is sent again is stored once"
        if facts.plan.transactional:
            return once
        return f"{once}. Exception: {_NEW_EPOCH}"
    if facts.retries:
        return "producers retry and are not idempotent: a message may be stored twice"
    return "producers never send a message again: each message is stored at most once"


def _transactions(facts: RunFacts) -> str:
    limit = f"{facts.plan.transaction_timeout_s:g} s"
    once = "; each input of the pipeline takes effect exactly once"
    return (
        "writes are transactions: a read_committed reader gets all records of a committed"
        " transaction, and none of an aborted one; a transaction that no client ends is aborted"
        f" after {limit}{once if facts.plan.workload == 'pipeline' else ''}"
    )


def _recovery(facts: RunFacts) -> str:
    limits = facts.plan.budgets
    back = f"a leader within {limits.election_s:g} s, accepts messages within"
    back += f" {limits.unavailable_s:g} s"
    if facts.plan.replication > 1:
        back += (
            f", and has all of its {facts.plan.replication} replicas in sync within"
            f" {limits.isr_s:g} s"
        )
    if facts.plan.is_grouped:
        back += f"; every group reads its new messages within {limits.group_s:g} s"
    return f"after the last fault is healed, every partition has {back}"
