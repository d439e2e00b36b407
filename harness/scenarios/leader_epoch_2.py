"""Example 2 of KIP-101: two replicas keep different messages at one offset, for ever.

Both brokers die. The one with less returns first, leads, and writes another message where the other
one has its last. When that one returns and trusts its own high watermark, which says that all it
has is committed, it keeps what it has. With leader epochs (KIP-101) it asks where its last epoch
ends, finds that the new leader never had that message, and truncates it.

The article's form needs an unclean election, which loses message2 by either rule: leader epochs do
not bring back what an unclean election threw away, they only keep replicas equal. The clean forms
need none.
"""

from harness.scenarios import leader_epoch_2_move, leader_epoch_2_restart
from harness.scenarios.actions import AskEpochEnd, Kill, Pause, Produce, Start
from harness.scenarios.conditions import (
    high_watermark_on_disk,
    isr_is,
    leads,
    log_end_on_disk,
    nobody_leads,
    unregistered,
)
from harness.scenarios.declared import declared
from harness.scenarios.forms import Form, rule_of, told_in_forms
from harness.scenarios.leader_epochs import (
    TRUNCATIONS,
    article_values,
    begins_epoch,
    epochs,
    leads_alone,
    of_epochs,
    on_election,
    raised_by_isr,
    taught,
)
from harness.scenarios.protocol import Condition, Expected, Step
from results.record.plan import Plan
from results.record.terms import Judge, Rule, Validity

A, B, CONTROLLER = "n1", "n2", "n3"
SHORT_WAIT_MS = 500
"""Kafka's default: this story does not need marks that lag behind."""

_RETURN_OF_A = {
    Rule.HIGH_WATERMARK: "A returns, follows B, and truncates to its own high watermark, 2: it"
    " keeps message2, and is in sync.",
    Rule.LEADER_EPOCH: "A returns, follows B, and hears that epoch 0 ends at offset 1: it truncates"
    " message2, and fetches message3.",
}
_WHY_OF_A = {
    Rule.HIGH_WATERMARK: "A believes that everything below its own high watermark is committed, and"
    " so the same everywhere. It fetches from offset 2 on, where there is nothing yet. At offset 1"
    " A has message2, and B has message3.",
    Rule.LEADER_EPOCH: "A's log ends in epoch 1. B never had anything of epoch 1: the last epoch"
    " before it that B knows is 0, and that one ends at offset 1, where message3 begins. So A's"
    " message2 is not in B's log, and goes.",
}
_WHY_OF_A_IN_KRAFT = (
    "A's log ends in epoch 0: in KRaft a departure from the ISR raises no epoch. At B that epoch"
    " ends at offset 1, where message3 begins. So A's message2 is not in B's log, and goes."
)
_MESSAGE4 = {
    Rule.HIGH_WATERMARK: "From here on both replicas grow equally, and both high watermarks say 3;"
    " who compares ends or counts sees no difference. A reader gets message3 today, and message2"
    " if A is elected tomorrow.",
    Rule.LEADER_EPOCH: "Both replicas are the same, and so are both files: epoch 0 starts at offset"
    " 0, epoch {epoch} at offset 1.",
}


def _steps(plan: Plan) -> tuple[Step, ...]:
    return (*_until_both_are_dead(plan), *_until_both_are_back(plan))


def _until_both_are_dead(plan: Plan) -> tuple[Step, ...]:
    rule = rule_of(plan)
    return (
        Step(
            "message1 is written to A (n1) with acks=all, and B (n2) fetches it.",
            (
                leads(A),
                Produce(),
                *(log_end_on_disk(node, 1) for node in (A, B)),
                *(high_watermark_on_disk(node, 1) for node in (A, B)),
                *epochs(plan, rule, A, B, are=((0, 0),)),
            ),
        ),
        Step(
            "B hangs: it is paused. Its session ends, and A alone is in sync.",
            (Pause(B), unregistered(B), isr_is(A), *leads_alone(plan, A)),
        ),
        Step(
            "message2 is written to A; it is committed, and acknowledged, without B.",
            (
                Produce(),
                log_end_on_disk(A, 2),
                high_watermark_on_disk(A, 2),
                log_end_on_disk(B, 1),
                *epochs(plan, rule, A, are=((0, 0), *((_of_a(plan), 1),) * raised_by_isr(plan))),
            ),
            why="min.insync.replicas=1: the only replica in sync is enough.",
        ),
        Step(
            "Both brokers die.",
            (Kill(A), Kill(B), unregistered(A), nobody_leads()),
            why="A's checkpoint says that its high watermark is 2, B has nothing but message1.",
        ),
    )


def _until_both_are_back(plan: Plan) -> tuple[Step, ...]:
    rule = rule_of(plan)
    return (
        Step(
            "B returns first, and leads, though it is not in sync.",
            (
                Start(B),
                leads(B),
                isr_is(B),
                begins_epoch(B, _of_b(plan)),
                log_end_on_disk(B, 1),
                *epochs(plan, rule, B, are=((0, 0), *on_election(plan, _of_b(plan), 1))),
            ),
            why="An unclean election, which the topic allows. message2 is lost here, by either"
            " rule.",
        ),
        Step(
            "message3 is written to B, at offset 1.",
            (
                Produce(),
                log_end_on_disk(B, 2),
                high_watermark_on_disk(B, 2),
                *epochs(plan, rule, B, are=((0, 0), (_of_b(plan), 1))),
                AskEpochEnd(node=B, epoch=_of_a(plan)),
            ),
            why="B was asked here what A will have to know: where A's last epoch,"
            f" {_of_a(plan)}, ends at B.",
        ),
        Step(
            _RETURN_OF_A[taught(rule)],
            (
                Start(A),
                isr_is(A, B),
                leads(B),
                log_end_on_disk(A, 2),
                *_epochs_of_both(plan, of_a=()),
            ),
            why=_why_of_a(plan),
            lines=TRUNCATIONS,
        ),
        Step(
            "message4 is written to B, at offset 2, and A fetches it.",
            (
                Produce(),
                *(log_end_on_disk(node, 3) for node in (A, B)),
                *(high_watermark_on_disk(node, 3) for node in (A, B)),
                *_epochs_of_both(plan, of_a=((_of_b(plan), 2),)),
            ),
            why=_MESSAGE4[taught(rule)].format(epoch=_of_b(plan)),
        ),
    )


def _of_a(plan: Plan) -> int:
    """Return the epoch in which A writes message2: another one, if B's departure made one."""
    return raised_by_isr(plan)


def _of_b(plan: Plan) -> int:
    """Return the epoch in which B leads, after nobody did."""
    return 2 + raised_by_isr(plan)


def _why_of_a(plan: Plan) -> str:
    rule = taught(rule_of(plan))
    kraft = rule is Rule.LEADER_EPOCH and not raised_by_isr(plan)
    return _WHY_OF_A_IN_KRAFT if kraft else _WHY_OF_A[rule]


def _epochs_of_both(plan: Plan, *, of_a: tuple[tuple[int, int], ...]) -> tuple[Condition, ...]:
    """Wait for both files, which differ by the old rule: A has its own line of B's epoch, or none.

    Args:
        plan: Of the run.
        of_a: What A has of B's epoch by the old rule.
    """
    rule = rule_of(plan)
    of_b = ((_of_b(plan), 1),)
    own = of_a if rule is Rule.HIGH_WATERMARK else of_b
    return (
        *epochs(plan, rule, A, are=((0, 0), *own)),
        *epochs(plan, rule, B, are=((0, 0), *of_b)),
    )


def _expected(plan: Plan) -> Expected:
    read = ("message1", "message3", "message4")
    lost = "message2, which was acknowledged, is lost under both rules, because an unclean election"
    if rule_of(plan) is Rule.HIGH_WATERMARK:
        return Expected(
            valid=Validity.INVALID,
            anomalies=declared(
                plan,
                "log-divergence",
                "lost-write",
                "inconsistent-offsets",
                announced=("high-watermark-regression", *of_epochs(plan, Rule.HIGH_WATERMARK)),
            ),
            lost=("message2",),
            read=read,
            moral=f"At offset 1 A holds message2 and B holds message3, both in sync, for ever."
            f" {lost} was allowed; the divergence is what leader epochs do away with.",
        )
    return Expected(
        valid=Validity.VALID,
        anomalies=declared(
            plan,
            "lost-write",
            "inconsistent-offsets",
            "log-divergence",
            announced=(
                "committed-truncation",
                "high-watermark-regression",
                "incomplete-leader",
            ),
        ),
        lost=("message2",),
        read=read,
        moral=f"Both replicas hold message1, message3, message4. {lost} was allowed: only the"
        " divergence went away. That loss is what the contract allows when unclean elections are"
        " asked for, so the verdict is valid; a strict judge does not allow it.",
    )


ARTICLE = Form(
    systems=(
        "kafka:2.8.2",
        "kafka:0.11.0.3",
        "kafka:1.1.1",
        "kafka:3.9.1:zookeeper",
        "reference:controllers",
    ),
    plan=lambda rule, system: {
        **article_values(rule, system, fetch_wait_ms=SHORT_WAIT_MS),
        "judge": Judge.CONTRACT,
    },
    assignment=(A, B),
    first=(CONTROLLER,),
    steps=_steps,
    expected=_expected,
)

SCENARIO = told_in_forms(
    name="leader-epoch-2",
    title="Two replicas keep different messages at one offset",
    about=__doc__.partition("\n\n")[2] if __doc__ else "",
    forms={
        ("article", None): ARTICLE,
        ("clean", "restart"): leader_epoch_2_restart.FORM,
        ("clean", "move"): leader_epoch_2_move.FORM,
    },
)
