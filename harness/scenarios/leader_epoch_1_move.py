"""The clean form of example 1 in which the leadership moves, and only one broker dies.

The scenario has no unclean election, three replicas, acks=all and min.insync.replicas=2. A hands
its leadership to C. B, which hears no broker at that moment, becomes C's follower, and truncates to
its own high watermark. Then C dies. B leads without the last message, although B never left the
ISR.
"""

from harness.scenarios.actions import (
    AskEpochEnd,
    Cut,
    ElectPreferred,
    Join,
    Kill,
    Produce,
    Reassign,
    Start,
)
from harness.scenarios.conditions import (
    high_watermark_on_disk,
    isr_is,
    leads,
    log_end_on_disk,
    unregistered,
)
from harness.scenarios.declared import declared
from harness.scenarios.forms import Form, rule_of
from harness.scenarios.leader_epochs import (
    TRUNCATIONS,
    begins_epoch,
    clean_values,
    epochs,
    follows,
)
from harness.scenarios.protocol import Expected, Step
from results.record.plan import Plan
from results.record.terms import Judge, Rule, Validity

A, B, C, CONTROLLER = "n1", "n2", "n3", "n4"
DEAF = "B hears no broker"
BOTH_WAYS_MS = 6_000
"""How long a fetch waits at the leader for new records. The scenario first waits until all high
watermarks are equal. After the next message, the high watermarks differ until the next fetch. The
scenario must act before this fetch."""

_FATE_OF_B = {
    Rule.HIGH_WATERMARK: "A and B become C's followers, and truncate to their own high watermarks."
    " A truncates to 3, which changes nothing. B truncates to 2, and loses message3. B would fetch"
    " message3 again if it could reach C.",
    Rule.LEADER_EPOCH: "A and B become C's followers. C answers A that A's last epoch ends at 3. B"
    " gets no answer, and truncates nothing.",
}
_RETURN_OF_C = {
    Rule.HIGH_WATERMARK: "C also has message3, but the leader's log ends before message3. So C"
    " truncates to 2. The last copy is lost.",
    Rule.LEADER_EPOCH: "B answers that C's last epoch ends at offset 3, where C's log ends. C"
    " truncates nothing.",
}
_FATE_OF_A = {
    Rule.HIGH_WATERMARK: "A has message3, and fetches at offset 3. The leader's log ends at 2, so A"
    " truncates its own log to 2.",
    Rule.LEADER_EPOCH: "B answers that A's last epoch ends at offset 3, where A's log ends."
    " Nothing is truncated. A's fetch shows B that message3 is committed.",
}


def values(rule: Rule, system: str) -> dict[str, object]:
    """Return the plan's values for a rule and a system."""
    plan = clean_values(rule, system, fetch_wait_ms=BOTH_WAYS_MS)
    return {**plan, "judge": Judge.CONTRACT}


def until_b_leads(plan: Plan) -> tuple[Step, ...]:
    """Return the steps until B leads. Example 2 begins with these steps, too."""
    rule = rule_of(plan)
    kept = 2 if rule is Rule.HIGH_WATERMARK else 3
    return (
        Step(
            "The assignment is reordered to C, B, A (n3, n2, n1). A still leads, all are in sync.",
            (leads(A), Reassign((C, B, A)), leads(A), isr_is(A, B, C)),
            why="The first replica of the assignment is the preferred leader. If it dies, the next"
            " replica in sync is elected.",
        ),
        Step(
            "message1 and message2 are written, and all three know that both are committed.",
            (Produce(count=2), *(high_watermark_on_disk(node, 2) for node in (A, B, C))),
        ),
        Step(
            "message3 is written with acks=all. As soon as it is acknowledged, B hears no broker"
            " any more.",
            (
                Produce(),
                Cut(DEAF, ((A, B), (C, B))),
                *(log_end_on_disk(node, 3) for node in (A, B, C)),
                *(high_watermark_on_disk(node, 3) for node in (A, C)),
                high_watermark_on_disk(B, 2),
                *epochs(plan, rule, A, B, C, are=((1, 0),)),
            ),
            why="A and C know that message3 is committed. B has message3, too, but its own high"
            " watermark is 2. B still hears the controller, and all other brokers hear B.",
        ),
        Step(
            "The preferred leader, C, is elected.",
            (
                ElectPreferred(),
                leads(C),
                begins_epoch(C, 2),
                AskEpochEnd(node=C, epoch=1),
                follows(A, C),
                follows(B, C),
                log_end_on_disk(B, kept),
                *(log_end_on_disk(node, 3) for node in (A, C)),
                isr_is(A, B, C),
            ),
            why=_FATE_OF_B[rule],
            lines=TRUNCATIONS,
        ),
        Step(
            "C dies. B is elected: it is the next in the assignment, and counts as in sync.",
            (
                Kill(C),
                unregistered(C),
                leads(B),
                isr_is(A, B),
                follows(A, B),
                log_end_on_disk(B, kept),
                log_end_on_disk(A, 3),
            ),
            why="This election is clean: B never left the ISR.",
        ),
    )


def _steps(plan: Plan) -> tuple[Step, ...]:
    rule = rule_of(plan)
    kept = 2 if rule is Rule.HIGH_WATERMARK else 3
    return (
        *until_b_leads(plan),
        Step(
            "B hears again, and A fetches from it.",
            (
                Join(DEAF),
                *(log_end_on_disk(node, kept) for node in (A, B)),
                high_watermark_on_disk(B, kept),
            ),
            why=_FATE_OF_A[rule],
            lines=TRUNCATIONS,
        ),
        Step(
            "C returns and follows B.",
            (Start(C), isr_is(A, B, C), leads(B), log_end_on_disk(C, kept)),
            why=_RETURN_OF_C[rule],
            lines=TRUNCATIONS,
        ),
        Step(
            f"message4 is written to B, at offset {kept}.",
            (
                Produce(),
                *(log_end_on_disk(node, kept + 1) for node in (A, B, C)),
                high_watermark_on_disk(B, kept + 1),
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
                "lost-write",
                "inconsistent-offsets",
                announced=("committed-truncation", "high-watermark-regression"),
            ),
            lost=("message3",),
            read=("message1", "message2", "message4"),
            moral="Three replicas in sync had message3 when it was acknowledged. No election was"
            " unclean, and no setting allowed a loss. B truncated message3, and then A and C did"
            " so, too, because B led.",
        )
    return Expected(
        valid=Validity.VALID,
        read=("message1", "message2", "message3", "message4"),
        moral="With the same moves, nothing is lost: B truncated nothing before it knew where its"
        " epoch ends.",
    )


FORM = Form(
    systems=("kafka:2.8.2", "kafka:3.9.1:zookeeper"),
    plan=values,
    assignment=(A, B, C),
    first=(CONTROLLER,),
    steps=_steps,
    expected=_expected,
)
