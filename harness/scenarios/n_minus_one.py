"""Of three replicas two are lost, one after the other: the last one serves, and nothing is lost.

A message is committed once every replica in sync has it, however few those are; so any of them
can become the leader, and N replicas bear the loss of N-1 brokers. The price: what the last one
takes, with min.insync.replicas=1, is on one disk only. https://kafka.apache.org/documentation/#replication
"""

from harness.scenarios.actions import Kill, Produce, Read, Start
from harness.scenarios.conditions import (
    epochs_on_disk,
    high_watermark,
    isr_is,
    leads,
    log_end,
    log_end_on_disk,
)
from harness.scenarios.protocol import Condition, Expected, Scenario, Step
from harness.scenarios.settings import STEADY_LEADERS
from results.record.plan import Plan
from results.record.plan_parts import ScenarioPlan
from results.record.terms import Mode, Validity

FIRST, SECOND, LAST, CONTROLLER = "n1", "n2", "n3", "n4"


def _plan(_choices: ScenarioPlan, system: str) -> dict[str, object]:
    # A majority of the controllers has to live on: of combined nodes two of three do not.
    alone = system.endswith(":controllers")
    return {
        "system": system,
        "nodes": 3 if alone else 4,
        **({"controllers": 1} if alone else {}),
        "replication": 3,
        "min_insync": 1,
        "broker": STEADY_LEADERS,
    }


def _holds(node: str, end: int) -> tuple[Condition, Condition]:
    return (log_end(node, end), high_watermark(node, end))


def _steps(_plan: Plan) -> tuple[Step, ...]:
    return (
        Step(
            "message1 is written to n1 with acks=all; n2 and n3 fetch it.",
            (
                leads(FIRST, epoch=0),
                Produce(),
                *_holds(FIRST, 1),
                *_holds(SECOND, 1),
                *_holds(LAST, 1),
            ),
            why="All three are in sync, so message1 is committed, and acknowledged, when all three"
            " have it.",
        ),
        Step(
            "n1, the leader, is killed. n2 is elected from those in sync, in epoch 1.",
            (Kill(FIRST), leads(SECOND, epoch=1), isr_is(SECOND, LAST)),
            why="n2 has everything that was committed: it was in sync. One of three is lost.",
        ),
        Step(
            "message2 is written to n2.",
            (Produce(), *_holds(SECOND, 2), *_holds(LAST, 2)),
            why="Committed by the two that are in sync now; n1 is not waited for.",
        ),
        Step(
            "n2 is killed too. n3, the last one in sync, leads in epoch 2.",
            (Kill(SECOND), leads(LAST, epoch=2), isr_is(LAST)),
        ),
        Step(
            "message3 is written to n3, and all three messages are read from it.",
            (Produce(), *_holds(LAST, 3), Read()),
            why="N-1 brokers are gone, and the partition is written and read. With"
            " min.insync.replicas=2 n3 would refuse acks=all here, and still be read.",
        ),
        Step(
            "n1 returns, and catches up from n3.",
            (Start(FIRST), isr_is(FIRST, LAST), *_holds(FIRST, 3)),
            why="It asks n3 where its last epoch, 0, ends: at 1, which is where its own log ends."
            " So it truncates nothing, and fetches what it has missed.",
        ),
        Step(
            "n2 returns too. All three are in sync, with the same log.",
            (
                Start(SECOND),
                isr_is(FIRST, SECOND, LAST),
                leads(LAST, epoch=2),
                *_holds(SECOND, 3),
                *(log_end_on_disk(node, 3) for node in (FIRST, SECOND, LAST)),
                *(epochs_on_disk(node, (0, 0), (1, 1), (2, 2)) for node in (FIRST, SECOND, LAST)),
            ),
        ),
    )


def _expected(_plan: Plan) -> Expected:
    return Expected(
        valid=Validity.VALID,
        read=("message1", "message2", "message3"),
        moral="Two of three brokers were lost, one after the other, and every message that was"
        " acknowledged is there: each leader came from those in sync.",
    )


SCENARIO = Scenario(
    name="n-minus-one",
    title="Two of three brokers are lost, and no message",
    about=__doc__.partition("\n\n")[2] if __doc__ else "",
    systems=("kafka:4.3.1:controllers", "kafka:2.8.2", "reference:controllers"),
    plan=_plan,
    assignment=lambda _plan: (FIRST, SECOND, LAST),
    first=lambda plan: (CONTROLLER,) if plan.mode is Mode.ZOOKEEPER else (),
    steps=_steps,
    expected=_expected,
)
