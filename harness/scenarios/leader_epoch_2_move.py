"""The clean form of example 2 in which the leadership moves: one message differs forever.

The scenario begins like the clean form of example 1: a clean election makes B leader, without
message3. A has message3, and knows that it is committed. Before A's fetches reach B, message4 is
written to B. There it gets the offset that message3 has on A. A's next fetch begins after that
offset. So A keeps message3, and B even concludes that A has message4.
"""

from harness.scenarios.actions import Answered, Join, Produce, Start
from harness.scenarios.conditions import (
    high_watermark_on_disk,
    isr_is,
    leads,
    log_end_on_disk,
)
from harness.scenarios.declared import declared
from harness.scenarios.forms import Form, rule_of
from harness.scenarios.leader_epoch_1_move import CONTROLLER, DEAF, A, B, C, until_b_leads, values
from harness.scenarios.leader_epochs import TRUNCATIONS, epochs
from harness.scenarios.protocol import Expected, Step
from results.record.plan import Plan
from results.record.terms import Rule, Validity

_RETURN_OF_A = {
    Rule.HIGH_WATERMARK: "A's high watermark is 3, and its log ends there. So A truncates nothing,"
    " and fetches at offset 3. For B, this fetch means that A has everything below 3. So message4"
    " is committed and acknowledged, although A has message3 at that offset.",
    Rule.LEADER_EPOCH: "B answers that A's last epoch ends at offset 3, where A's log ends. A"
    " fetches message4. A's next fetch shows B that A has it, and message4 is committed.",
}
_RETURN_OF_C = {
    Rule.HIGH_WATERMARK: "C's high watermark is 3 as well, so it keeps message3, as A does.",
    Rule.LEADER_EPOCH: "B answers that C's last epoch ends at offset 3, where C's log ends. C"
    " truncates nothing, and fetches message4.",
}


def _steps(plan: Plan) -> tuple[Step, ...]:
    rule = rule_of(plan)
    kept = 2 if rule is Rule.HIGH_WATERMARK else 3
    return (
        *until_b_leads(plan),
        Step(
            f"message4 is sent to B with acks=all. B appends it at offset {kept}, and waits for A.",
            (Produce(wait=False), log_end_on_disk(B, kept + 1), log_end_on_disk(A, 3)),
            why="B does not hear A's fetches yet.",
        ),
        Step(
            "B hears again, and A fetches from it. message4 is acknowledged.",
            (
                Join(DEAF),
                Answered(),
                *(log_end_on_disk(node, kept + 1) for node in (A, B)),
                high_watermark_on_disk(B, kept + 1),
            ),
            why=_RETURN_OF_A[rule],
            lines=TRUNCATIONS,
        ),
        Step(
            "C returns and follows B.",
            (Start(C), isr_is(A, B, C), leads(B), log_end_on_disk(C, kept + 1)),
            why=_RETURN_OF_C[rule],
            lines=TRUNCATIONS,
        ),
        Step(
            "message5 is written to B, and fetched by A and C.",
            (
                Produce(),
                *(log_end_on_disk(node, kept + 2) for node in (A, B, C)),
                high_watermark_on_disk(B, kept + 2),
                *epochs(plan, rule, A, B, C, are=((1, 0), (3, 3))),
            ),
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
                announced=("committed-truncation", "high-watermark-regression"),
            ),
            lost=("message3",),
            read=("message1", "message2", "message4", "message5"),
            moral="At offset 2, A and C have message3, and B has message4. Both messages were"
            " acknowledged with acks=all, and all three replicas are in sync. No election was"
            " unclean, and no setting allows this.",
        )
    return Expected(
        valid=Validity.VALID,
        read=("message1", "message2", "message3", "message4", "message5"),
        moral="With the same moves, all three replicas have the same five messages.",
    )


FORM = Form(
    systems=("kafka:2.8.2", "kafka:3.9.1:zookeeper"),
    plan=values,
    assignment=(A, B, C),
    first=(CONTROLLER,),
    steps=_steps,
    expected=_expected,
)
