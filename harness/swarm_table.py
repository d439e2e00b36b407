"""The swarm's table: settings, values other than the default, and a reason for each value.

A reason names the mechanism that a value exercises. No value is chosen for one particular bug.
Messages, `linger.ms`, compression, batches and requests in flight are not in this table, because
`harness/drawing.py` chooses them in every run.

Some settings are left out on purpose:

- `unclean.leader.election.enable`, acks and `min.insync.replicas`. With other values, the cluster
  would promise less.
- Settings of retention. If retention deletes the records that a reader needs next, the reader ends
  with an error. Then no records would be read for the rest of the run.
- Settings that the brokers under test may not know yet.
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
"""The delivery timeout of clients, so short that the outcome of some sends stays unknown."""
_REQUEST_MS = 1000
"""The clients' request timeout in runs with impatient clients."""


def _for_long(plan: Plan) -> bool:
    return plan.time_limit_s >= _LONG_ENOUGH_S


def _speaks_consumer(plan: Plan) -> bool:
    return consumer_refusal(plan) is None


def _may_go_on(plan: Plan) -> bool:
    """Return whether clients may continue after timeouts.

    If a watcher runs, only Java clients may continue.
    """
    return plan.wants_java or not plan.stop_on_violation


def _discards(plan: Plan) -> bool:
    return not plan.goes_on


def _outlives_faults(plan: Plan) -> bool:
    """Return whether all handwritten faults are shorter than a short delivery timeout.

    Random faults are always shorter.
    """
    return all(fault.hold_s < _DELIVERY_S for fault in plan.faults or ())


def _one_send(plan: Plan) -> bool:
    return plan.sends_per_op == 1


_PLAIN = doing("log", "groups")
_OF_THEIR_OWN = doing("keyed", "pipeline")
"""Workloads that set topics, partitions and rate themselves."""


def _open(plan: Plan) -> bool:
    return not _OF_THEIR_OWN(plan) and not has_shares(plan)


def _unshared(plan: Plan) -> bool:
    return not has_shares(plan)


def _delivers_twice(plan: Plan) -> bool:
    """Return whether the delivery timeout is long enough for a request and the linger time.

    Kafka's Java client refuses a delivery timeout shorter than request timeout plus linger. The
    delivery timeout must not be longer than the transaction timeout. The linger time may be chosen
    later, but it is shorter than the request timeout. So a delivery needs at least two request
    timeouts.
    """
    transaction_s = plan.transaction_timeout_s if plan.transactional else math.inf
    delivery_ms = 1000 * min(plan.delivery_timeout_s, transaction_s)
    return delivery_ms >= _REQUEST_MS + max(_REQUEST_MS, plan.linger_ms)


_WORKLOAD = (
    Row(
        name="sends_per_op",
        where="log and groups, with a fixed rate",
        fits=every(_PLAIN, paced),
        values=(
            Value(
                settings={"sends_per_op": 20, "rate": 100},
                why="batches of many records; several batches are in a queue when a leader fails",
            ),
        ),
    ),
    Row(
        name="rate",
        where="log, groups and txn, with a fixed rate",
        fits=every(_open, paced, _one_send),
        values=(
            Value(
                settings={"rate": 50},
                why=(
                    "idle periods: fetches wait for their maximum time, and batches have one record"
                ),
                fits=every(_PLAIN, _for_long),
            ),
            Value(
                settings={"rate": 2000},
                why="followers fall behind, and request queues are full",
                fits=every(_PLAIN, real),
            ),
            Value(
                settings={"rate": 30},
                why="transactions that do not overlap with others",
                fits=every(doing("txn"), _for_long),
            ),
            Value(
                settings={"rate": 300},
                why="many open transactions when a coordinator fails",
                fits=doing("txn"),
            ),
        ),
    ),
    Row(
        name="topics",
        where="all except keyed, pipeline and shares",
        fits=_open,
        values=(
            Value(
                settings={"topics": 1},
                why=("one topic, so all partitions are in one request entry"),
            ),
            Value(settings={"topics": 3}, why="requests for several topics at once"),
        ),
    ),
    Row(
        name="partitions",
        where="all except keyed, pipeline and shares",
        fits=_open,
        values=(
            Value(
                settings={"partitions": 1},
                why="one leader has all the load, and other brokers lead nothing",
            ),
            Value(
                settings={"partitions": 12},
                why=(
                    "elections of many partitions at once, and fetch responses without some"
                    " partitions"
                ),
            ),
        ),
    ),
    Row(
        name="nodes",
        where="virtual time",
        fits=simulated,
        values=(
            Value(
                settings={"nodes": 5}, why="brokers without a replica, and quorums of five members"
            ),
        ),
    ),
    Row(
        name="group_protocol",
        where="groups, pipeline",
        fits=grouped,
        values=(
            Value(
                settings={"group_protocol": "classic"},
                why="the members compute every assignment",
            ),
            Value(
                settings={"group_protocol": "consumer"},
                why="the coordinator computes every assignment (KIP-848)",
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
                why="a producer continues while its own late requests are in flight",
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
                why="coordinators abort transactions to which clients still write",
                fits=doing("txn"),
            ),
            Value(
                settings={"transaction_timeout_s": 2},
                why="as above, but after a longer time than most requests take",
            ),
        ),
    ),
    Row(
        name="delivery_timeout_s",
        where="clients that do not continue after timeouts, no handwritten fault of 8 s or more",
        fits=_discards,
        values=(
            Value(
                settings={"delivery_timeout_s": _DELIVERY_S},
                why="sends end with an unknown outcome while brokers may still append them",
                fits=_outlives_faults,
            ),
        ),
    ),
    Row(
        name="linger_ms",
        where="virtual time (in real time, it is always chosen at random)",
        fits=simulated,
        values=(
            Value(settings={"linger_ms": 0}, why="one request for each record"),
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
                # A second longer than a fetch waits; otherwise librdkafka warns.
                settings={"client.socket.timeout.ms": "1100"},
                why="requests are resent while the first ones are still in flight",
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
                why="requests are resent while the first ones are still in flight",
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
                why="retries arrive when another leader may already exist",
            ),
        ),
    ),
)
ROWS: tuple[Row, ...] = (*_WORKLOAD, *_CLIENTS, *OF_BROKERS)
"""The rows in the order in which their values are chosen. Conditions of a row may use the values of
earlier rows."""
