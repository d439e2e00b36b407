"""The last replica in sync loses its disk's cache: what becomes of what the others have.

Replicas leave the ISR one by one, until one is left. If that one loses what was not flushed, and is
elected when it returns, everybody follows it, and throws away good copies. With eligible leader
replicas (KIP-966) the controller remembers who left the ISR when it fell below
min.insync.replicas: they have everything that was acknowledged; and it trusts nobody who comes back
from an unclean shutdown. https://cwiki.apache.org/confluence/x/mpOzDw
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
"""It has no eligible leader replicas."""


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
    """Wait until the controller has fenced a broker; no broker is left that could be asked."""
    number = node.removeprefix("n")
    return logged(
        CONTROLLER,
        rf"[Ff]encing broker {number}\b",
        what=f"{CONTROLLER} has fenced {node}, whose session is over",
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
            why="They are acknowledged, and on three machines. None has flushed them to its disk"
            " yet: Kafka leaves that to the operating system, and trusts in copies.",
        ),
        Step(
            "n1 hangs. Its session ends, and n2 leads; n2 and n3 are in sync.",
            (Pause(FIRST), unregistered(FIRST), leads(SECOND), isr_is(SECOND, LAST)),
        ),
        Step(
            "n2 hangs too. n3 leads, alone in sync.",
            (Pause(SECOND), unregistered(SECOND), leads(LAST), isr_is(LAST)),
            why="min.insync.replicas is 2: n3 takes no more messages with acks=all. All that were"
            " acknowledged are on n2 as well, which was in sync when they were.",
        ),
        Step(
            "The power of n3 fails. What it had not flushed, all of it, is gone.",
            (PowerLoss(LAST), _session_ended(LAST), log_end_on_disk(LAST, 0)),
            why="Simulated: the process is killed, and its log cut off where it was last flushed.",
        ),
        *(_with() if plan.scenario and plan.scenario.elr else _without()),
    )


def _holds(node: str, end: int) -> tuple[Condition, Condition]:
    return (log_end(node, end), high_watermark(node, end))


def _without() -> tuple[Step, ...]:
    return (
        Step(
            "n3 returns, with an empty log, and is elected: it was the last one in sync.",
            (Start(LAST), leads(LAST), isr_is(LAST), log_end(LAST, 0)),
            why="A clean election, as far as the controller knows. n1 and n2 still have all of the"
            " messages.",
        ),
        Step(
            "n1 and n2 are back. They follow n3, and erase what they have.",
            (
                Resume(FIRST),
                Resume(SECOND),
                leads(LAST),  # The two that return may take a moment to hear of it.
                isr_is(*ALL),
                *(log_end(node, 0) for node in ALL),
            ),
            why="Each asks n3 where its last epoch ends, is told 0, and truncates: the two good"
            " copies are gone too.",
        ),
        Step(
            "message101 is written, at offset 0.",
            (Produce(), *(it for node in ALL for it in _holds(node, 1))),
        ),
    )


def _with() -> tuple[Step, ...]:
    return (
        Step(
            "n3 returns, with an empty log. It is not elected.",
            (Start(LAST), registered(LAST), nobody_leads(), log_end_on_disk(LAST, 0)),
            why="n3 could not say that it had shut down cleanly, so the controller took it out of"
            " the ISR, and out of the eligible leader replicas. n2 is one of those: it left the"
            " ISR when there were fewer than min.insync.replicas in it. The partition waits for"
            " it.",
        ),
        Step(
            "n1 and n2 are back. n2 is elected, and n3 fetches what it has lost.",
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
            moral="The partition was unavailable until a replica was back that is known to have"
            " everything. Nothing is lost.",
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
        moral="100 messages were acknowledged, on three machines, and no setting allowed their"
        " loss: one power failure on the last machine in sync erased them on all three.",
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
