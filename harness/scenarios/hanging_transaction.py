"""A request arrives behind the end of its transaction, and readers wait for ever.

A Produce request of a transaction is held up in the network. Its client gets no answer and aborts:
the coordinator writes the marker, and forgets the transaction. Then the request arrives. Before
KIP-890 the leader takes it for the first one of another transaction, which its coordinator does not
know, and so nobody ends it: the last stable offset stands still, and every read_committed reader
stands there (KAFKA-14402). Since 3.6 the leader asks the coordinator first, and refuses the
request. https://cwiki.apache.org/confluence/x/B40ODg

The network's part is played by the harness, which sends each request by itself.
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
"""Leaders verify that a transaction is under way since then (KIP-890, part 1)."""


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
            "message1 is written in a transaction, which is committed.",
            (
                leads(BROKER, epoch=0),
                BeginTransaction(BROKER),
                EndTransaction(committed=True),
                last_stable(BROKER, 2),
            ),
            why="Behind message1 stands the marker that commits it, at offset 1.",
        ),
        Step(
            "Another transaction begins. message2 is written in it; the request with message3 is"
            " held up in the network.",
            (
                BeginTransaction(BROKER, held_up=True),
                high_watermark(BROKER, 3),
                last_stable(BROKER, 2),
            ),
            why="While the transaction is open, the last stable offset stands at its first message:"
            " read_committed readers are given nothing from there on.",
        ),
        Step(
            "Its client gets no answer to message3, and aborts. The marker is written.",
            (
                EndTransaction(committed=False),
                high_watermark(BROKER, 4),
                last_stable(BROKER, 4),
            ),
            why="The transaction is over, and the coordinator has forgotten it. Readers skip"
            " message2.",
        ),
        _refused() if _verifies(plan) else _accepted(),
        Step(
            "message4 is written, outside of any transaction, and acknowledged. A read_committed"
            " reader reads the partition from its start.",
            (
                Produce(),
                high_watermark(BROKER, 5 if _verifies(plan) else 6),
                last_stable(BROKER, 5 if _verifies(plan) else 4),
                Read(),
            ),
            why=""
            if _verifies(plan)
            else "message4 is committed, and no read_committed reader is given it.",
        ),
    )


def _accepted() -> Step:
    return Step(
        "The request with message3 arrives. The broker accepts it.",
        (ArriveLate(accepted=True), high_watermark(BROKER, 5), last_stable(BROKER, 4)),
        why="Producer, epoch and sequence number are the next ones. To the leader a transaction has"
        " begun; the coordinator knows of none, and will not abort it when its time is over.",
    )


def _refused() -> Step:
    return Step(
        "The request with message3 arrives. The broker refuses it.",
        (ArriveLate(accepted=False), high_watermark(BROKER, 4), last_stable(BROKER, 4)),
        why="The leader has asked the coordinator, which knows of no open transaction.",
    )


def _expected(plan: Plan) -> Expected:
    if _verifies(plan):
        return Expected(
            valid=Validity.VALID,
            read=("message1", "message4"),
            moral="The late request was refused, and readers go on.",
        )
    return Expected(
        valid=Validity.INVALID,
        anomalies=frozenset({"hanging-transaction", "final-read-incomplete"}),
        read=("message1",),
        moral="One request that came late has stopped every read_committed reader of the partition,"
        " until an operator aborts the transaction (kafka-transactions.sh abort).",
    )


SCENARIO = Scenario(
    name="hanging-transaction",
    title="A late request opens a transaction that nobody ends",
    about=__doc__.partition("\n\n")[2] if __doc__ else "",
    systems=("kafka:3.5.2:combined", "kafka:2.8.2", "kafka:4.3.1"),
    plan=_plan,
    assignment=lambda _plan: (BROKER,),
    steps=_steps,
    expected=_expected,
    transactions=True,
)
