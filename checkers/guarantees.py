"""What the configuration of a run promises, in sentences for people."""

from checkers.facts import RunFacts
from checkers.unclean_orders import KIND as UNCLEAN_ORDER
from results.record.identities import groups


def guarantees(facts: RunFacts) -> tuple[str, ...]:
    """Return a sentence for each promise that the plan's settings make or give up."""
    promises = [_acks(facts), _unclean(facts), _duplicates(facts)]
    if facts.plan.transactional:
        promises.append(_transactions(facts))
    if facts.plan.workload != "script":  # What a story waits for, and how long, is its own.
        promises.append(_recovery(facts))
    return tuple(promises)


def _acks(facts: RunFacts) -> str:
    plan = facts.plan
    if facts.no_acks:
        return "acks=0: nothing is ever acknowledged, so every message may be lost"
    if facts.weak_acks:
        return "acks=1: the leader alone vouches for a message; losing the leader may lose it"
    held = f"acks=all with min.insync.replicas {plan.min_insync} of {plan.replication}"
    spare = plan.min_insync - 1
    if spare <= 0:
        return f"{held}: an acknowledged message is in every in-sync replica, which may be only one"
    brokers = "one broker" if spare == 1 else f"{spare} brokers"
    return f"{held}: an acknowledged message survives the loss of {brokers}"


def _unclean(facts: RunFacts) -> str:
    if facts.plan.unclean_elections:
        return "unclean elections are on: a replica that lacks messages may become the leader"
    planned = any(fault.kind == UNCLEAN_ORDER for fault in facts.plan.faults or ())
    if planned or facts.unclean_orders:  # Dealt ones are known when they have come.
        return "unclean elections are off, but for those that faults order: these lose messages"
    return "unclean elections are off: only an in-sync replica becomes the leader"


def _duplicates(facts: RunFacts) -> str:
    if facts.idempotent:
        return "producers are idempotent: a message that is sent again is stored once"
    if facts.retries:
        return "producers retry and are not idempotent: a message may be stored twice"
    return "producers never send a message again: each is stored at most once"


def _transactions(facts: RunFacts) -> str:
    limit = f"{facts.plan.transaction_timeout_s:g} s"
    return (
        "writes are transactions: a read_committed reader gets all of a committed one, and nothing"
        f" of an aborted one; what nobody ends is aborted after {limit}"
    )


def _recovery(facts: RunFacts) -> str:
    limits = facts.plan.budgets
    back = f"a leader within {limits.election_s:g} s, takes messages within"
    back += f" {limits.unavailable_s:g} s"
    if facts.plan.replication > 1:
        back += (
            f", and is on all of its {facts.plan.replication} replicas within {limits.isr_s:g} s"
        )
    if groups(facts.plan):
        back += f"; every group reads of it what arrives, within {limits.group_s:g} s"
    return f"after the last fault is healed, every partition has {back}"
