"""What a swarm draws: each setting, its values beside the default, and why each is worth a run.

A reason says which mechanism a value brings into reach. No value is fitted to one bug. The plan's
own drawing (`harness/drawing.py`) has what messages hold, `linger.ms`, compression, batches and
requests in flight: those are drawn in every run.

Not here: `unclean.leader.election.enable`, acks and `min.insync.replicas`, by which a cluster
promises less; retention, because a reader that goes on below the start of a log ends with an error,
and most of a run would then read nothing; names of a broker that has started to know them later.
"""

import math

from harness.swarm_brokers import OF_BROKERS
from harness.swarm_rows import (
    Row,
    Value,
    doing,
    every,
    grouped,
    javas,
    own_clients,
    paced,
    real,
    simulated,
    transactional,
)
from results.record.group_ways import consumer_refusal
from results.record.plan import Plan
from results.record.shares import has_shares

_LONG_ENOUGH_S = 30
_DELIVERY_S = 8
"""What they are told to deliver a message in, where sends are to end unknown."""
_REQUEST_MS = 1000
"""What clients are told to wait for an answer, where they are to be impatient."""


def _for_long(plan: Plan) -> bool:
    return plan.time_limit_s >= _LONG_ENOUGH_S


def _speaks_consumer(plan: Plan) -> bool:
    return consumer_refusal(plan) is None


def _may_go_on(plan: Plan) -> bool:
    """Tell whether clients may go on after time-outs; a watcher needs Java's for that."""
    return plan.wants_java or not plan.stop_on_violation


def _discards(plan: Plan) -> bool:
    return not plan.goes_on


def _outlives_faults(plan: Plan) -> bool:
    """Tell whether all faults written by hand end before a short delivery does; others fit it."""
    return all(fault.hold_s < _DELIVERY_S for fault in plan.faults or ())


def _one_send(plan: Plan) -> bool:
    return plan.sends_per_op == 1


_PLAIN = doing("log", "groups")
_OF_THEIR_OWN = doing("keyed", "pipeline")
"""Workloads whose topics, partitions and rate belong together."""


def _open(plan: Plan) -> bool:
    return not _OF_THEIR_OWN(plan) and not has_shares(plan)


def _unshared(plan: Plan) -> bool:
    return not has_shares(plan)


def _delivers_twice(plan: Plan) -> bool:
    """Tell whether a delivery has room for a request, and for the linger or a second request.

    Kafka's Java client refuses a request and a linger that are longer than a delivery, which may
    not be longer than its transaction. The linger is drawn later, and is shorter than a request.
    """
    transaction_s = plan.transaction_timeout_s if plan.transactional else math.inf
    delivery_ms = 1000 * min(plan.delivery_timeout_s, transaction_s)
    return delivery_ms >= _REQUEST_MS + max(_REQUEST_MS, plan.linger_ms)


_WORKLOAD = (
    Row(
        name="sends_per_op",
        where="log and groups, at a rate",
        fits=every(_PLAIN, paced),
        values=(
            Value(
                settings={"sends_per_op": 20, "rate": 100},
                why="batches of many records: several are behind one another when a leader goes",
            ),
        ),
    ),
    Row(
        name="rate",
        where="log, groups and txn, at a rate",
        fits=every(_open, paced, _one_send),
        values=(
            Value(
                settings={"rate": 50},
                why="idle moments: fetches wait their full time, batches hold one record",
                fits=every(_PLAIN, _for_long),
            ),
            Value(
                settings={"rate": 2000},
                why="followers that are behind, full request queues",
                fits=every(_PLAIN, real),
            ),
            Value(
                settings={"rate": 30},
                why="transactions that meet no other one",
                fits=every(doing("txn"), _for_long),
            ),
            Value(
                settings={"rate": 300},
                why="many transactions under way when a coordinator goes",
                fits=doing("txn"),
            ),
        ),
    ),
    Row(
        name="topics",
        where="all but keyed, pipeline and shares",
        fits=_open,
        values=(
            Value(settings={"topics": 1}, why="one topic: all partitions are of one epoch list"),
            Value(settings={"topics": 3}, why="requests about several topics at once"),
        ),
    ),
    Row(
        name="partitions",
        where="all but keyed, pipeline and shares",
        fits=_open,
        values=(
            Value(
                settings={"partitions": 1},
                why="all load on one leader, and a broker that leads nothing",
            ),
            Value(
                settings={"partitions": 12},
                why="elections of many partitions at once, fetches that do not hold all of them",
            ),
        ),
    ),
    Row(
        name="nodes",
        where="virtual time",
        fits=simulated,
        values=(Value(settings={"nodes": 5}, why="brokers without a replica, quorums of five"),),
    ),
    Row(
        name="group_protocol",
        where="groups, pipeline",
        fits=grouped,
        values=(
            Value(
                settings={"group_protocol": "classic"},
                why="every rebalance is the members' own",
            ),
            Value(
                settings={"group_protocol": "consumer"},
                why="every rebalance is the coordinator's (KIP-848)",
                fits=_speaks_consumer,
            ),
        ),
    ),
    Row(
        name="after_timeout",
        where="txn",
        fits=every(doing("txn"), _may_go_on),
        values=(
            Value(
                settings={"after_timeout": "go-on"},
                why="a producer goes on beside its own late requests",
            ),
        ),
    ),
    Row(
        name="transaction_timeout_s",
        where="transactions",
        fits=transactional,
        values=(
            Value(
                settings={"transaction_timeout_s": 1},
                why="coordinators abort what clients still write",
                fits=doing("txn"),
            ),
            Value(
                settings={"transaction_timeout_s": 2},
                why="the same, later than most requests take",
            ),
        ),
    ),
    Row(
        name="delivery_timeout_s",
        where="clients that do not go on after time-outs, no fault by hand of 8 s or more",
        fits=_discards,
        values=(
            Value(
                settings={"delivery_timeout_s": _DELIVERY_S},
                why="sends end unknown while brokers may still write them",
                fits=_outlives_faults,
            ),
        ),
    ),
    Row(
        name="linger_ms",
        where="virtual time (elsewhere always drawn)",
        fits=simulated,
        values=(
            Value(settings={"linger_ms": 0}, why="a request for each record"),
            Value(settings={"linger_ms": 50}, why="batches of several records"),
        ),
    ),
)
_CLIENTS = (
    Row(
        name="socket.timeout.ms",
        where="librdkafka, not shares",
        fits=every(own_clients, _unshared),
        values=(
            Value(
                # A second longer than it waits for a fetch, or librdkafka warns.
                settings={"client.socket.timeout.ms": "1100"},
                why="requests are sent again while the first ones are still under way",
                fits=_discards,
            ),
        ),
    ),
    Row(
        name="request.timeout.ms",
        where="Kafka's Java client, not shares, transactions of 2 s or more",
        fits=every(javas, _unshared, _discards, _delivers_twice),
        values=(
            Value(
                settings={"client.request.timeout.ms": str(_REQUEST_MS)},
                why="requests are sent again while the first ones are still under way",
            ),
        ),
    ),
    Row(
        name="retry.backoff.ms",
        where="librdkafka",
        fits=own_clients,
        values=(
            Value(
                settings={"client.retry.backoff.ms": "10"},
                why="retries arrive before brokers have learned of an election",
            ),
            Value(
                settings={"client.retry.backoff.ms": "500"},
                why="retries arrive when another leader may be there already",
            ),
        ),
    ),
)
ROWS: tuple[Row, ...] = (*_WORKLOAD, *_CLIENTS, *OF_BROKERS)
"""In the order in which they are drawn: what a row asks of the workload was drawn before it."""
