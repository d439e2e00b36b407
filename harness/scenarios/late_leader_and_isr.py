"""The leader moves, and one broker learns of it late. Until then the brokers disagree.

The controller chooses the leader. Then it informs one broker after the other; in ZooKeeper mode, it
sends LeaderAndIsr requests. The brokers disagree until all of them are informed.

The leader epoch keeps this harmless. Every decision of the controller increases the epoch, and each
request names the epoch that the sender of the request knows (KIP-320). A broker refuses an older
epoch (FENCED_LEADER_EPOCH), and an epoch that it does not know yet (UNKNOWN_LEADER_EPOCH).

The article's partition AAA-0 is called peter-test01-0 here. The article's brokers 2 and 1 are n2
and n1. Its broker 0, the controller, is n3.
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
"""The leader moves from `OLD` to `NEW`."""
BEFORE, AFTER = 1, 2
"""The leader epochs before and after the move."""
NEW_LEADER, OLD_LEADER = "new-leader", "old-leader"
_LINES = (
    r"Sending become-(leader|follower) LeaderAndIsr|starting the become-(leader|follower)"
    r"|(Leader|Follower) \S+ starts at leader epoch"
)
_VAIN = r"fails to send request.*LeaderAndIsr"
"""A line in the controller's log: there was no response, so the controller will resend the
request."""


def _plan(_choices: ScenarioPlan, system: str) -> dict[str, object]:
    return {
        "system": system,
        "nodes": 3,
        "replication": 2,
        "min_insync": 1,
        "minimums": {"around_faults": 0},
        "broker": {
            **STEADY_LEADERS,
            # The controller sends a request again if no answer comes within this time.
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
            "The partition is on n2 and n1, and n2 leads it. message1 is written.",
            (leads(NEW, epoch=0), Produce(), log_end(OLD, 1), high_watermark(OLD, 1)),
        ),
        Step(
            "n2 is restarted. Meanwhile n1 becomes the leader, in epoch 1. message2 is written.",
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
            why="n1 and n3 know that n2 leads in epoch 2. The new leader, n2, does not know it yet:"
            " it believes that n1 leads in epoch 1. So n1 sends clients to n2, and n2 sends them"
            " back to n1. If a client knows epoch 1, n1 answers that epoch 1 is over. If a client"
            " knows epoch 2, n2 answers that it does not know epoch 2.",
            lines=_LINES,
        ),
        Step(
            "message3 is sent. No broker accepts it.",
            (Produce(answered=False, within_s=5), log_end(OLD, 2), log_end(NEW, 2)),
            why="The old leader has resigned, and the new leader does not know that it leads. The"
            " partition is unavailable until n2 learns of it. Nothing worse happens.",
            lines=_VAIN,
        ),
        Step(
            "n2 hears the controller again, and leads in epoch 2.",
            (
                Join("late"),
                *_all_believe(NEW, AFTER),
                *_questions(),
            ),
            why="The controller has kept trying. Now n2 serves clients that know epoch 2. It"
            " refuses a client that knows only epoch 1, and that client asks for new metadata.",
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
            why="n2 leads in epoch 2. n1 does not know it, and goes on as the leader of epoch 1. So"
            " two brokers claim to lead the partition at once. But they claim it for different"
            " epochs: n1 refuses clients that know epoch 2, and n2 refuses clients that know only"
            " epoch 1.",
            lines=_LINES,
        ),
        Step(
            "message3 is sent to n1, which appends it, but cannot commit it.",
            (
                Produce(answered=False, within_s=4, only_to=OLD),
                log_end(OLD, 3),
                high_watermark(OLD, 2),
                log_end(NEW, 2),
                isr_is(NEW),
            ),
            why="With acks=all, n1 waits for n2, which it believes to be in sync. But n2 does not"
            " fetch, because it leads itself. Broker n1 cannot remove n2 from the ISR either: the"
            " controller must approve that, and the controller knows epoch 2. The controller does"
            " approve n2's request to remove n1 from the ISR. So message3 is in n1's log, but no"
            " reader can read it, and it is not acknowledged.",
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
            why="n2 waits for no other replica now. At offset 2, n1 has message3 in epoch 1, and"
            " n2 has message4 in epoch 2. Only message4 is committed.",
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
            why="n1 asks n2 where epoch 1 ends. The answer is 2, so n1 truncates its log there,"
            " and fetches message4. The split has healed by itself, and no acknowledged message is"
            " lost.",
            lines=_LINES,
        ),
    )


def _same_epochs() -> tuple[Condition, ...]:
    lines = ((0, 0), (BEFORE, 1), (AFTER, 2))
    return tuple(epochs_on_disk(node, *lines) for node in (OLD, NEW))


def _expected(plan: Plan) -> Expected:
    if plan.scenario and plan.scenario.late == OLD_LEADER:
        moral = (
            "Two brokers claimed to lead, in two epochs. The broker with the older epoch could"
            " append a message, but not commit it. That message was truncated, and it had not been"
            " acknowledged."
        )
    else:
        moral = (
            "Until the new leader learns that it leads, the partition has no leader and is"
            " unavailable. Nothing worse happens. The epoch shows clients and brokers which of them"
            " is out of date."
        )
    return Expected(valid=Validity.VALID, read=("message1", "message2", "message4"), moral=moral)


SCENARIO = Scenario(
    name="late-leader-and-isr",
    title="A broker learns late what its controller has decided",
    about=__doc__.partition("\n\n")[2] if __doc__ else "",
    systems=("kafka:2.8.2",),
    choices={"late": Choice(values=(NEW_LEADER, OLD_LEADER))},
    plan=_plan,
    assignment=lambda _plan: (NEW, OLD),
    first=lambda _plan: (CONTROLLER,),
    steps=_steps,
    expected=_expected,
)
