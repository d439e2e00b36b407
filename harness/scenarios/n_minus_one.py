"""Two of three brokers fail, one after the other: the third serves, and no message is lost.

A message is committed when every replica in sync has it, even if only one replica is in sync. So
each replica in sync can become the leader, and N replicas survive the loss of N-1 brokers. The
price: with min.insync.replicas=1, only the last broker has the newest messages. See
https://kafka.apache.org/documentation/#replication
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
    # A majority of the controllers must survive. With combined nodes, only one of three would.
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
            why="All three are in sync. So message1 is committed and acknowledged once all three"
            " have it.",
        ),
        Step(
            "n1, the leader, is killed. n2, a replica in sync, is elected in epoch 1.",
            (Kill(FIRST), leads(SECOND, epoch=1), isr_is(SECOND, LAST)),
            why="n2 has every committed message, because it was in sync. One of three brokers is"
            " lost.",
        ),
        Step(
            "message2 is written to n2.",
            (Produce(), *_holds(SECOND, 2), *_holds(LAST, 2)),
            why="The two brokers in sync commit message2. They do not wait for n1.",
        ),
        Step(
            "n2 is killed, too. n3, the last replica in sync, leads in epoch 2.",
            (Kill(SECOND), leads(LAST, epoch=2), isr_is(LAST)),
        ),
        Step(
            "message3 is written to n3, and all three messages are read from it.",
            (Produce(), *_holds(LAST, 3), Read()),
            why="N-1 brokers are lost, but the partition can still be written and read. With"
            " min.insync.replicas=2, n3 would refuse acks=all here, but could still be read.",
        ),
        Step(
            "n1 returns, and catches up from n3.",
            (Start(FIRST), isr_is(FIRST, LAST), *_holds(FIRST, 3)),
            why="n1 asks n3 where epoch 0, its last epoch, ends. The answer is 1, where n1's own"
            " log ends. So n1 truncates nothing, and fetches the messages that it has missed.",
        ),
        Step(
            "n2 returns, too. All three are in sync, with equal logs.",
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
        moral="Two of three brokers were lost, one after the other, but every acknowledged message"
        " is there. The reason: each new leader was a replica in sync.",
    )


SCENARIO = Scenario(
    name="n-minus-one",
    title="Two of three brokers are lost, but no message is",
    about=__doc__.partition("\n\n")[2] if __doc__ else "",
    systems=("kafka:4.3.1:controllers", "kafka:2.8.2", "reference:controllers"),
    plan=_plan,
    assignment=lambda _plan: (FIRST, SECOND, LAST),
    first=lambda plan: (CONTROLLER,) if plan.mode is Mode.ZOOKEEPER else (),
    steps=_steps,
    expected=_expected,
)
