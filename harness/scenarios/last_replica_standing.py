"""The last replica in sync loses its unflushed data: do the other copies survive?

One replica after the other leaves the ISR, until only one is in it. Then that last replica loses
the data that it has not flushed. If this replica returns and becomes the leader, all other replicas
follow it, and truncate their good copies.

With eligible leader replicas (KIP-966), the controller remembers the replicas that left the ISR
when the ISR fell below min.insync.replicas. These replicas have every acknowledged message. But
after an unclean shutdown of a broker, the controller no longer trusts the data of that broker. See
https://cwiki.apache.org/confluence/x/mpOzDw
"""

from harness.scenarios.actions import Pause, PowerLoss, Produce, Resume, Start
from harness.scenarios.conditions import (
    high_watermark,
    isr_is,
    leads,
    log_end,
    log_end_on_disk,
    logged,
    nobody_leads,
    registered,
    unregistered,
)
from harness.scenarios.protocol import Choice, Condition, Expected, Scenario, Step
from harness.scenarios.settings import STEADY_LEADERS
from results.record.plan import Plan
from results.record.plan_parts import ScenarioPlan
from results.record.terms import Validity

FIRST, SECOND, LAST = "n1", "n2", "n3"
CONTROLLER = "n101"
ALL = (FIRST, SECOND, LAST)
MESSAGES = 100
ELR = "eligible.leader.replicas.version"
_KAFKA = ("kafka:4.3.1:controllers", "kafka:4.1.1:controllers")
_REFERENCE = "reference:controllers"
"""The reference cluster has no eligible leader replicas."""


def _plan(choices: ScenarioPlan, system: str) -> dict[str, object]:
    return {
        "system": system,
        "nodes": 3,
        "controllers": 1,
        "replication": 3,
        "min_insync": 2,
        "minimums": {"around_faults": 0},
        "features": {ELR: 1 if choices.elr else 0},
        "broker": {**STEADY_LEADERS, "broker.session.timeout.ms": "3000"},
    }


def _session_ended(node: str) -> Condition:
    """Wait until the controller's log shows that the controller has fenced a broker."""
    number = node.removeprefix("n")
    return logged(
        CONTROLLER,
        rf"[Ff]encing broker {number}\b",
        what=f"{CONTROLLER} has fenced {node}, whose session has ended",
    )


def _steps(plan: Plan) -> tuple[Step, ...]:
    return (
        Step(
            "message1 to message100 are written with acks=all. All three brokers have them.",
            (
                leads(FIRST, epoch=0),
                Produce(count=MESSAGES, together=True),
                *(it for node in ALL for it in _holds(node, MESSAGES)),
            ),
            why="They are acknowledged, and three machines have them. No broker has flushed them"
            " to its disk yet: Kafka leaves that to the operating system, and relies on copies.",
        ),
        Step(
            "n1 hangs. Its session ends, and n2 leads; n2 and n3 are in sync.",
            (Pause(FIRST), unregistered(FIRST), leads(SECOND), isr_is(SECOND, LAST)),
        ),
        Step(
            "n2 hangs too. n3 leads, and is the only replica in sync.",
            (Pause(SECOND), unregistered(SECOND), leads(LAST), isr_is(LAST)),
            why="min.insync.replicas is 2, so n3 accepts no more messages with acks=all. n2 also"
            " has every acknowledged message, because it was in sync at that time.",
        ),
        Step(
            "The power of n3 fails. It loses everything, because it had flushed nothing.",
            (PowerLoss(LAST), _session_ended(LAST), log_end_on_disk(LAST, 0)),
            why="The power loss is simulated: the process is killed, and its log is cut off after"
            " its flushed part.",
        ),
        *(_with() if plan.scenario and plan.scenario.elr else _without()),
    )


def _holds(node: str, end: int) -> tuple[Condition, Condition]:
    return (log_end(node, end), high_watermark(node, end))


def _without() -> tuple[Step, ...]:
    return (
        Step(
            "n3 returns with an empty log, and is elected, because it was the last replica in"
            " sync.",
            (Start(LAST), leads(LAST), isr_is(LAST), log_end(LAST, 0)),
            why="For the controller, this election is clean. n1 and n2 still have all messages.",
        ),
        Step(
            "n1 and n2 are back. They follow n3, and erase their messages.",
            (
                Resume(FIRST),
                Resume(SECOND),
                leads(LAST),  # n1 and n2 may learn of it a moment later.
                isr_is(*ALL),
                *(log_end(node, 0) for node in ALL),
            ),
            why="Each asks n3 where its last epoch ends. The answer is 0, so each truncates its"
            " whole log. The two good copies are lost, too.",
        ),
        Step(
            "message101 is written, at offset 0.",
            (Produce(), *(it for node in ALL for it in _holds(node, 1))),
        ),
    )


def _with() -> tuple[Step, ...]:
    return (
        Step(
            "n3 returns with an empty log. It is not elected.",
            (Start(LAST), registered(LAST), nobody_leads(), log_end_on_disk(LAST, 0)),
            why="n3 could not prove a clean shutdown. So the controller removed it from the ISR,"
            " and from the eligible leader replicas. Replica n2 is still eligible, because it left"
            " the ISR when the ISR became smaller than min.insync.replicas. The partition waits"
            " for n2.",
        ),
        Step(
            "n1 and n2 are back. n2 is elected, and n3 fetches the messages that it has lost.",
            (
                Resume(FIRST),
                Resume(SECOND),
                leads(SECOND),
                isr_is(*ALL),
                *(it for node in ALL for it in _holds(node, MESSAGES)),
            ),
        ),
        Step(
            "message101 is written, at offset 100.",
            (Produce(), *(it for node in ALL for it in _holds(node, MESSAGES + 1))),
        ),
    )


def _expected(plan: Plan) -> Expected:
    names = tuple(f"message{number}" for number in range(1, MESSAGES + 2))
    if plan.scenario and plan.scenario.elr:
        return Expected(
            valid=Validity.VALID,
            anomalies=frozenset({"committed-truncation"}),
            read=names,
            moral="The partition was unavailable until a replica returned that surely has every"
            " message. Nothing is lost.",
        )
    return Expected(
        valid=Validity.INVALID,
        anomalies=frozenset(
            {
                "lost-write",
                "inconsistent-offsets",
                "offset-order",
                "committed-truncation",
                "incomplete-leader",
                "high-watermark-regression",
            }
        ),
        lost=names[:-1],
        read=names[-1:],
        moral="100 messages were acknowledged by three machines, and no setting allowed their"
        " loss. Still, one power failure on the last machine in sync erased them on all three.",
    )


SCENARIO = Scenario(
    name="last-replica-standing",
    title="The last replica in sync loses its log",
    about=__doc__.partition("\n\n")[2] if __doc__ else "",
    systems=(*_KAFKA, _REFERENCE),
    systems_of=lambda choices: _KAFKA if choices.elr else (*_KAFKA, _REFERENCE),
    choices={"elr": Choice(values=("on", "off"))},
    plan=_plan,
    assignment=lambda _plan: ALL,
    topic_settings={"min.insync.replicas": "2"},
    steps=_steps,
    expected=_expected,
)
