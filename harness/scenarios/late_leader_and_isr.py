"""The leader moves, and one broker hears of it late: who believes what, who serves, who is refused.

The controller decides who leads and tells the brokers one by one; in ZooKeeper mode by
LeaderAndIsr requests. Until the last one has heard, brokers disagree. What keeps that harmless is
the leader epoch: it grows with every decision, and whoever asks names the epoch that he knows
(KIP-320). A broker refuses an older one (FENCED_LEADER_EPOCH) and one that it has not heard of
(UNKNOWN_LEADER_EPOCH).

The article's partition AAA-0 is peter-test01-0 here, on its brokers 2 and 1, n2 and n1; its broker
0, the controller, is n3.
"""

from harness.scenarios.actions import (
    AskLeader,
    Cut,
    ElectPreferred,
    Join,
    Produce,
    Start,
    Stop,
)
from harness.scenarios.conditions import (
    believes,
    epochs_on_disk,
    high_watermark,
    isr_is,
    leads,
    log_end,
)
from harness.scenarios.protocol import Choice, Condition, Expected, Scenario, Step
from harness.scenarios.settings import STEADY_LEADERS
from results.record.plan import Plan
from results.record.plan_parts import ScenarioPlan
from results.record.terms import Validity

OLD, NEW, CONTROLLER = "n1", "n2", "n3"
"""The leader moves from the first to the second."""
BEFORE, AFTER = 1, 2
"""Leader epochs."""
NEW_LEADER, OLD_LEADER = "new-leader", "old-leader"
_LINES = (
    r"Sending become-(leader|follower) LeaderAndIsr|starting the become-(leader|follower)"
    r"|(Leader|Follower) \S+ starts at leader epoch"
)
_VAIN = r"fails to send request.*LeaderAndIsr"
"""The controller has waited for an answer, and tries again."""


def _plan(_choices: ScenarioPlan, system: str) -> dict[str, object]:
    return {
        "system": system,
        "nodes": 3,
        "replication": 2,
        "min_insync": 1,
        "minimums": {"around_faults": 0},
        "broker": {
            **STEADY_LEADERS,
            # How long the controller waits for an answer that is cut off before it tries again.
            "controller.socket.timeout.ms": "2000",
            "request.timeout.ms": "2000",
        },
    }


def _steps(plan: Plan) -> tuple[Step, ...]:
    late = plan.scenario.late if plan.scenario else None
    return (*_before(), *(_old_leader_late() if late == OLD_LEADER else _new_leader_late()))


def _before() -> tuple[Step, ...]:
    return (
        Step(
            "The partition lies on n2 and n1, and n2 leads it. message1 is written.",
            (leads(NEW, epoch=0), Produce(), log_end(OLD, 1), high_watermark(OLD, 1)),
        ),
        Step(
            "n2 is restarted; meanwhile n1 has become the leader, in epoch 1. message2 is written.",
            (
                Stop(NEW),
                leads(OLD, epoch=BEFORE),
                Start(NEW),
                isr_is(OLD, NEW),
                *_all_believe(OLD, BEFORE),
                Produce(),
                *(it for node in (OLD, NEW) for it in _holds(node, 2)),
                *(epochs_on_disk(node, (0, 0), (BEFORE, 1)) for node in (OLD, NEW)),
            ),
            why="All three brokers agree: n1 leads in epoch 1.",
        ),
    )


def _all_believe(leader: str, epoch: int) -> tuple[Condition, ...]:
    return tuple(believes(node, leader, epoch=epoch) for node in (OLD, NEW, CONTROLLER))


def _holds(node: str, end: int) -> tuple[Condition, Condition]:
    return (log_end(node, end), high_watermark(node, end))


def _questions() -> tuple[AskLeader, ...]:
    return tuple(
        AskLeader(node=node, epoch=epoch) for node in (OLD, NEW) for epoch in (BEFORE, AFTER)
    )


def _new_leader_late() -> tuple[Step, ...]:
    return (
        Step(
            "The controller's requests no longer reach n2, and the leader moves from n1 to n2.",
            (
                Cut("late", ((CONTROLLER, NEW),)),
                ElectPreferred(),
                believes(OLD, NEW, epoch=AFTER),
                believes(CONTROLLER, NEW, epoch=AFTER),
                believes(NEW, OLD, epoch=BEFORE),
                *_questions(),
            ),
            why="n1 and n3 have heard that n2 leads in epoch 2. n2, the new leader, has not: it"
            " believes that n1 leads in epoch 1. So n1 sends everybody to n2, and n2 sends"
            " everybody to n1. To a client that knows epoch 1, n1 says that this is over; to one"
            " that knows epoch 2, n2 says that it has never heard of it.",
            lines=_LINES,
        ),
        Step(
            "message3 is sent. Nobody takes it.",
            (Produce(answered=False, within_s=5), log_end(OLD, 2), log_end(NEW, 2)),
            why="The old leader has stepped back, the new one does not know that it leads: the"
            " partition is unavailable until n2 has heard. Nothing worse happens.",
            lines=_VAIN,
        ),
        Step(
            "n2 hears the controller again: it leads in epoch 2.",
            (
                Join("late"),
                *_all_believe(NEW, AFTER),
                *_questions(),
            ),
            why="The controller has gone on trying. Now n2 serves whoever knows of epoch 2; who"
            " still knows only epoch 1 is refused, and looks anew.",
            lines=_LINES,
        ),
        Step(
            "message4 is written to n2.",
            (
                Produce(),
                isr_is(OLD, NEW),
                *(it for node in (OLD, NEW) for it in _holds(node, 3)),
                *_same_epochs(),
            ),
        ),
    )


def _old_leader_late() -> tuple[Step, ...]:
    return (
        Step(
            "The controller's requests no longer reach n1, and the leader moves from n1 to n2.",
            (
                Cut("late", ((CONTROLLER, OLD),)),
                ElectPreferred(),
                believes(NEW, NEW, epoch=AFTER),
                believes(CONTROLLER, NEW, epoch=AFTER),
                believes(OLD, OLD, epoch=BEFORE),
                *_questions(),
            ),
            why="n2 leads in epoch 2. n1 has not heard of it, and goes on as the leader of epoch 1:"
            " two brokers claim the partition at once. But each claim bears its epoch: who knows of"
            " epoch 2 is not served by n1, and who knows only epoch 1 is not served by n2.",
            lines=_LINES,
        ),
        Step(
            "message3 is sent to n1, which takes it, and cannot commit it.",
            (
                Produce(answered=False, within_s=4, only_to=OLD),
                log_end(OLD, 3),
                high_watermark(OLD, 2),
                log_end(NEW, 2),
                isr_is(NEW),
            ),
            why="With acks=all n1 waits for those in sync, and that is n2, as far as it knows; n2"
            " fetches from nobody, since it leads. Nor can n1 take n2 out of the ISR: that is the"
            " controller's to grant, and it knows of epoch 2. It does grant n2's wish: n1, which"
            " does not fetch, is out of the ISR. message3 is in n1's log; nobody can read it, and"
            " nobody was told that it is safe.",
            lines=rf"{_VAIN}|Shrinking ISR",
        ),
        Step(
            "message4 is written to n2, which commits it.",
            (
                Produce(only_to=NEW),
                *_holds(NEW, 3),
                high_watermark(OLD, 2),
                believes(OLD, OLD, epoch=BEFORE),
            ),
            why="n2 waits for nobody any more. Now offset 2 is message3 on n1, in epoch 1, and"
            " message4 on n2, in epoch 2; only one of them is committed.",
        ),
        Step(
            "n1 hears the controller again. It follows n2, and truncates message3.",
            (
                Join("late"),
                *_all_believe(NEW, AFTER),
                isr_is(OLD, NEW),
                *(it for node in (OLD, NEW) for it in _holds(node, 3)),
                *_same_epochs(),
                *_questions(),
            ),
            why="n1 asks n2 where epoch 1 ends, is told 2, cuts its log there, and fetches"
            " message4. The split healed by itself, and nothing that was acknowledged is gone.",
            lines=_LINES,
        ),
    )


def _same_epochs() -> tuple[Condition, ...]:
    lines = ((0, 0), (BEFORE, 1), (AFTER, 2))
    return tuple(epochs_on_disk(node, *lines) for node in (OLD, NEW))


def _expected(plan: Plan) -> Expected:
    if plan.scenario and plan.scenario.late == OLD_LEADER:
        moral = (
            "Two brokers claimed to lead, in two epochs. The older claim could take a message, and"
            " not commit it; what it took was truncated, and nobody had been told that it was safe."
        )
    else:
        moral = (
            "Until the new leader has heard of it, nobody leads: the partition is unavailable, and"
            " nothing else. Clients and brokers find out by the epoch who of two is out of date."
        )
    return Expected(valid=Validity.VALID, read=("message1", "message2", "message4"), moral=moral)


SCENARIO = Scenario(
    name="late-leader-and-isr",
    title="A broker that hears its controller late",
    about=__doc__.partition("\n\n")[2] if __doc__ else "",
    systems=("kafka:2.8.2",),
    choices={"late": Choice(values=(NEW_LEADER, OLD_LEADER))},
    plan=_plan,
    assignment=lambda _plan: (NEW, OLD),
    first=lambda _plan: (CONTROLLER,),
    steps=_steps,
    expected=_expected,
)
