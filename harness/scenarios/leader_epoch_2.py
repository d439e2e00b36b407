"""Example 2 of KIP-101: two replicas keep different messages at the same offset forever.

Both brokers die. The broker with the shorter log returns first and leads. This leader writes a new
message at the offset where the other broker has its last message. Then the other broker returns. By
the old rule, the returned broker keeps all messages, because they are below its own high watermark.
With leader epochs (KIP-101), the returned broker asks where its last epoch ends. The response shows
that the new leader never had the last message, so the returned broker truncates that message.

The article's form of this scenario needs an unclean election, which loses message2 under either
rule. If an unclean election dropped a message, leader epochs do not bring the message back. They
only keep the replicas equal. The clean forms need no unclean election.
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
"""How long a fetch waits at the leader. Kafka's default is enough, because in this scenario no high
watermark needs to stay behind."""

_RETURN_OF_A = {
    Rule.HIGH_WATERMARK: "A returns, follows B, and truncates to its own high watermark, 2. So it"
    " keeps message2, and is in sync.",
    Rule.LEADER_EPOCH: "A returns and follows B. B answers that epoch 0 ends at offset 1. So A"
    " truncates message2, and fetches message3.",
}
_WHY_OF_A = {
    Rule.HIGH_WATERMARK: "A believes that all messages below its own high watermark are committed."
    " So A expects them to be equal on all replicas. It fetches from offset 2 on, where B has"
    " nothing yet. At offset 1, A has message2, and B has message3.",
    Rule.LEADER_EPOCH: "A's log ends in epoch 1. B never had a record of epoch 1. The last earlier"
    " epoch that B knows is 0. It ends at offset 1, where message3 begins. So A's message2 is not"
    " in B's log, and A truncates it.",
}
_WHY_OF_A_IN_KRAFT = (
    "A's log ends in epoch 0, because KRaft does not raise the epoch if a replica leaves the ISR."
    " In B's log, epoch 0 ends at offset 1, where message3 begins. So A's message2 is not in B's"
    " log, and A truncates it."
)
_MESSAGE4 = {
    Rule.HIGH_WATERMARK: "From here on, both replicas get the same messages, and both high"
    " watermarks are 3. The log ends and the numbers of messages are equal. A reader gets message3"
    " from B, but message2 if A is elected.",
    Rule.LEADER_EPOCH: "Both replicas are equal, and so are both files: epoch 0 starts at offset"
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
            "message2 is written to A. It is committed and acknowledged without B.",
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
            why="By A's checkpoint, its high watermark is 2. B has only message1.",
        ),
    )


def _until_both_are_back(plan: Plan) -> tuple[Step, ...]:
    rule = rule_of(plan)
    return (
        Step(
            "B returns first, and leads, although it is not in sync.",
            (
                Start(B),
                leads(B),
                isr_is(B),
                begins_epoch(B, _of_b(plan)),
                log_end_on_disk(B, 1),
                *epochs(plan, rule, B, are=((0, 0), *on_election(plan, _of_b(plan), 1))),
            ),
            why="This election is unclean. The topic allows it. message2 is lost here under either"
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
            why=f"A's last epoch is {_of_a(plan)}. Here the story asked B, as A would do, at which"
            " offset this epoch ends in B's log.",
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
    """Return the epoch of message2 on A. It is 1 if an ISR change raised the epoch, else 0."""
    return raised_by_isr(plan)


def _of_b(plan: Plan) -> int:
    """Return the epoch in which B leads. It begins after a time without a leader."""
    return 2 + raised_by_isr(plan)


def _why_of_a(plan: Plan) -> str:
    rule = taught(rule_of(plan))
    kraft = rule is Rule.LEADER_EPOCH and not raised_by_isr(plan)
    return _WHY_OF_A_IN_KRAFT if kraft else _WHY_OF_A[rule]


def _epochs_of_both(plan: Plan, *, of_a: tuple[tuple[int, int], ...]) -> tuple[Condition, ...]:
    """Wait for the epoch files of A and B. By the old rule, their entries for B's epoch differ.

    Args:
        plan: The run's plan.
        of_a: The entries for B's epoch that A's file gets by the old rule.
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
    lost = (
        "message2 was acknowledged, and is lost under both rules, because an unclean election was"
        " allowed."
    )
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
            moral="At offset 1, A has message2 and B has message3 forever, and both are in sync."
            f" {lost} Leader epochs prevent the divergence.",
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
        moral=f"Both replicas have message1, message3 and message4. {lost} Only the divergence is"
        " prevented. The contract allows this loss if unclean elections are enabled, so the verdict"
        " is valid. A strict judge does not allow it.",
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
