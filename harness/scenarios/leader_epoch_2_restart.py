"""The clean form of example 2 with restarts: 100 offsets differ, but all counts are right.

The scenario begins like the clean form of example 1: a clean election makes C leader, with an empty
log. A still has the 100 messages. Before A returns, 150 other messages are written to C and B.
According to A's high watermark, these 100 messages are committed. So A keeps the 100 messages,
fetches from offset 100 on, and is in sync.
"""

from harness.scenarios.actions import AskEpochEnd, Produce, Start
from harness.scenarios.conditions import (
    high_watermark_on_disk,
    isr_is,
    leads,
    log_end_on_disk,
)
from harness.scenarios.declared import declared
from harness.scenarios.forms import Form, rule_of
from harness.scenarios.leader_epoch_1_restart import (
    CONTROLLER,
    MANY,
    A,
    B,
    C,
    names,
    until_c_leads,
    values,
)
from harness.scenarios.leader_epochs import TRUNCATIONS, epochs, follows
from harness.scenarios.protocol import Expected, Step
from results.record.plan import Plan
from results.record.terms import Rule, Validity

MORE = 150

_RETURN_OF_A = {
    Rule.HIGH_WATERMARK: "A's high watermark is 100, and its log ends there. So A truncates"
    " nothing, and fetches the last 50 of the 150. At offsets 0 to 99, A has message1 to"
    " message100, and B and C have message101 to message200. All three are in sync, and have 150"
    " messages.",
    Rule.LEADER_EPOCH: "C answers that epoch 0 ends at offset 100, where A's log ends. A truncates"
    " nothing, and fetches the 150 messages.",
}


def _steps(plan: Plan) -> tuple[Step, ...]:
    rule = rule_of(plan)
    kept = 0 if rule is Rule.HIGH_WATERMARK else MANY
    end = kept + MORE
    return (
        *until_c_leads(plan),
        Step(
            "B returns and follows C.",
            (Start(B), isr_is(B, C), leads(C), log_end_on_disk(B, kept)),
            why="Two replicas are in sync again, as min.insync.replicas demands.",
            lines=TRUNCATIONS,
        ),
        Step(
            f"{MORE} messages are written to C, with acks=all, and B fetches them.",
            (
                Produce(count=MORE, together=True),
                *(log_end_on_disk(node, end) for node in (B, C)),
                high_watermark_on_disk(C, end),
                AskEpochEnd(node=C, epoch=0),
            ),
        ),
        Step(
            "A returns and follows C.",
            (
                Start(A),
                follows(A, C),
                isr_is(A, B, C),
                leads(C),
                *(log_end_on_disk(node, end) for node in (A, B, C)),
                *epochs(plan, rule, A, B, C, are=((0, 0), (2, MANY))),
            ),
            why=_RETURN_OF_A[rule],
            lines=TRUNCATIONS,
        ),
    )


def _expected(plan: Plan) -> Expected:
    if rule_of(plan) is Rule.HIGH_WATERMARK:
        return Expected(
            valid=Validity.INVALID,
            anomalies=declared(
                plan,
                "log-divergence",
                "lost-write",
                "inconsistent-offsets",
                "offset-order",
                announced=("committed-truncation", "high-watermark-regression"),
            ),
            lost=names(1, MANY),
            read=names(MANY + 1, MANY + MORE),
            moral="Three replicas are in sync and equally long, but the first 100 messages of A"
            " are not those of B and C. No election was unclean, and no setting allows this. Each"
            " replica has 150 messages, so a count shows nothing. Compare the values at each"
            " offset.",
        )
    return Expected(
        valid=Validity.VALID,
        read=names(1, MANY + MORE),
        moral="With the same restarts, all three replicas have all 250 messages.",
    )


FORM = Form(
    systems=("kafka:2.8.2", "kafka:0.11.0.3", "kafka:1.1.1", "kafka:3.9.1:zookeeper"),
    plan=values,
    assignment=(A, B, C),
    first=(CONTROLLER,),
    steps=_steps,
    expected=_expected,
)
