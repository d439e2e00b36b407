"""A request arrives after the end of its transaction, and readers wait forever.

The network delays a Produce request of a transaction. The client gets no response and aborts. So
the coordinator writes the marker, and forgets the transaction. Then the request arrives.

Before KIP-890, the leader takes this request for the start of a new transaction. The coordinator
does not know that transaction, so the transaction never ends. The last stable offset stops at the
start of the transaction, so every read_committed reader stops there, too (KAFKA-14402). Since Kafka
3.6, the leader first asks the coordinator, and refuses the request. See
https://cwiki.apache.org/confluence/x/B40ODg

In this scenario, the harness itself sends each request, so that it can delay one as the network
would.
"""

from harness.scenarios.actions import (
    ArriveLate,
    BeginTransaction,
    EndTransaction,
    Produce,
    Read,
)
from harness.scenarios.conditions import high_watermark, last_stable, leads
from harness.scenarios.protocol import Expected, Scenario, Step
from harness.scenarios.settings import STEADY_LEADERS
from results.record.plan import Plan
from results.record.plan_parts import ScenarioPlan
from results.record.terms import Validity

BROKER = "n1"
FIRST_VERIFYING = (3, 6)
"""The first version in which leaders check that a transaction is in progress (KIP-890, part 1)."""


def _plan(_choices: ScenarioPlan, system: str) -> dict[str, object]:
    return {
        "system": system,
        "nodes": 1,
        "replication": 1,
        "min_insync": 1,
        "minimums": {"around_faults": 0},
        "broker": STEADY_LEADERS,
    }


def _verifies(plan: Plan) -> bool:
    return plan.version_numbers >= FIRST_VERIFYING


def _steps(plan: Plan) -> tuple[Step, ...]:
    return (
        Step(
            "message1 is written in a transaction, and the transaction is committed.",
            (
                leads(BROKER, epoch=0),
                BeginTransaction(BROKER),
                EndTransaction(committed=True),
                last_stable(BROKER, 2),
            ),
            why="After message1, at offset 1, the log has the marker that commits it.",
        ),
        Step(
            "Another transaction begins. message2 is written in it. The network delays the request"
            " with message3.",
            (
                BeginTransaction(BROKER, held_up=True),
                high_watermark(BROKER, 3),
                last_stable(BROKER, 2),
            ),
            why="While the transaction is open, the last stable offset stays at its first message."
            " A read_committed reader gets no message from there on.",
        ),
        Step(
            "The client gets no answer to message3, and aborts. The coordinator writes the marker.",
            (
                EndTransaction(committed=False),
                high_watermark(BROKER, 4),
                last_stable(BROKER, 4),
            ),
            why="The transaction has ended, and the coordinator has forgotten it. Readers skip"
            " message2.",
        ),
        _refused() if _verifies(plan) else _accepted(),
        Step(
            "message4 is written outside of any transaction, and is acknowledged. A read_committed"
            " reader reads the partition from its start.",
            (
                Produce(),
                high_watermark(BROKER, 5 if _verifies(plan) else 6),
                last_stable(BROKER, 5 if _verifies(plan) else 4),
                Read(),
            ),
            why=""
            if _verifies(plan)
            else "message4 is committed, but no read_committed reader gets it.",
        ),
    )


def _accepted() -> Step:
    return Step(
        "The request with message3 arrives. The broker accepts it.",
        (ArriveLate(accepted=True), high_watermark(BROKER, 5), last_stable(BROKER, 4)),
        why="Producer id, epoch and sequence number are the expected next ones. So the leader"
        " takes the request for the start of a transaction. The coordinator does not know this"
        " transaction, and will not abort it after its timeout.",
    )


def _refused() -> Step:
    return Step(
        "The request with message3 arrives. The broker refuses it.",
        (ArriveLate(accepted=False), high_watermark(BROKER, 4), last_stable(BROKER, 4)),
        why="The leader has asked the coordinator, which knows no open transaction.",
    )


def _expected(plan: Plan) -> Expected:
    if _verifies(plan):
        return Expected(
            valid=Validity.VALID,
            read=("message1", "message4"),
            moral="The broker refused the late request, and readers continue.",
        )
    return Expected(
        valid=Validity.INVALID,
        anomalies=frozenset({"hanging-transaction", "final-read-incomplete"}),
        read=("message1",),
        moral="One late request has stopped every read_committed reader of the partition, until an"
        " operator aborts the transaction (kafka-transactions.sh abort).",
    )


SCENARIO = Scenario(
    name="hanging-transaction",
    title="A late request opens a transaction that no client ends",
    about=__doc__.partition("\n\n")[2] if __doc__ else "",
    systems=("kafka:3.5.2:combined", "kafka:2.8.2", "kafka:4.3.1"),
    plan=_plan,
    assignment=lambda _plan: (BROKER,),
    steps=_steps,
    expected=_expected,
    transactions=True,
)
