"""The clean form of example 1, by restarts: all 100 messages are lost, and no setting excuses it.

No unclean election, three replicas, acks=all, min.insync.replicas=2. B is paused while A hands its
leadership to it; C becomes B's follower, and truncates to its own high watermark before it can
fetch anything; then B dies, and C, which was in sync all the time, leads with an empty log.
"""

from harness.scenarios.actions import Kill, Pause, Produce, Start, Stop
from harness.scenarios.conditions import (
    ended,
    high_watermark_on_disk,
    isr_is,
    leads,
    log_end_on_disk,
)
from harness.scenarios.declared import declared
from harness.scenarios.forms import Form, rule_of
from harness.scenarios.leader_epochs import (
    HUNG_SESSION_MS,
    LONG_WAIT_MS,
    TRUNCATIONS,
    clean_values,
    epochs,
    follows,
    on_election,
)
from harness.scenarios.protocol import Expected, Step
from results.record.plan import Plan
from results.record.terms import Judge, Rule, Validity

A, B, C, CONTROLLER = "n1", "n2", "n3", "n4"
MANY = 100
FIRST_THAT_TRUNCATES = (2,)
"""An older broker with more than its leader halts, if unclean elections are off."""

_FATE_OF_C = {
    Rule.HIGH_WATERMARK: "C becomes B's follower, and truncates its log to its own high watermark,"
    " 0. It would fetch it all again from B, if B answered.",
    Rule.LEADER_EPOCH: "C becomes B's follower, and has to hear from B where epoch 0 ends before it"
    " truncates anything. B does not answer, so C keeps what it has.",
}
_RETURN_OF_B = {
    Rule.HIGH_WATERMARK: "B has all 100 messages as well. Its own high watermark is 0: it truncates"
    " them.",
    Rule.LEADER_EPOCH: "Epoch 0 ends at C at offset 100, as at B. Nothing is truncated.",
}
_FATE_OF_A = {
    Rule.HIGH_WATERMARK: "A's log was the last with the messages. Its leader's is empty, and so A"
    " truncates its own.",
    Rule.LEADER_EPOCH: "Epoch 0 ends at C at offset 100, as at A. Nothing is truncated.",
}


def values(rule: Rule, system: str) -> dict[str, object]:
    """Return the plan's values: B's session outlives its pause."""
    hung = {"zookeeper.session.timeout.ms": str(HUNG_SESSION_MS)}
    plan = clean_values(rule, system, fetch_wait_ms=LONG_WAIT_MS)
    return {**plan, "judge": Judge.CONTRACT, "node": {B: hung}}


def until_c_leads(plan: Plan) -> tuple[Step, ...]:
    """Return the story to the point where C leads; example 2 begins likewise."""
    rule = rule_of(plan)
    kept = 0 if rule is Rule.HIGH_WATERMARK else MANY
    return (
        Step(
            f"{MANY} messages are written to A (n1) in one batch, with acks=all; B (n2) and C (n3)"
            " fetch them.",
            (
                leads(A),
                Produce(count=MANY, together=True),
                *(log_end_on_disk(node, MANY) for node in (A, B, C)),
                high_watermark_on_disk(A, MANY),
                *(high_watermark_on_disk(node, 0) for node in (B, C)),
                *epochs(plan, rule, A, B, C, are=((0, 0),)),
            ),
            why="All three have all of it, and the producer has its answers. B and C will hear with"
            " the next response that it is committed: their own high watermarks are still 0.",
        ),
        Step(
            "B hangs: it is paused. Nobody notices, all three are in sync.",
            (Pause(B), isr_is(A, B, C)),
        ),
        Step(
            "A is restarted for maintenance: it hands its leadership to B and ends.",
            (
                # B's session must not end before it is seen to lead.
                Stop(A, wait=False),
                leads(B),
                isr_is(B, C),
                follows(C, B),
                log_end_on_disk(C, kept),
                high_watermark_on_disk(C, 0),
                ended(A),
            ),
            why=_FATE_OF_C[rule],
            lines=TRUNCATIONS,
        ),
        Step(
            "B dies. C, the last one in sync, is elected.",
            (Kill(B), leads(C), isr_is(C), log_end_on_disk(C, kept)),
            why="This election is clean: C never left the ISR.",
        ),
    )


def _steps(plan: Plan) -> tuple[Step, ...]:
    rule = rule_of(plan)
    kept = 0 if rule is Rule.HIGH_WATERMARK else MANY
    return (
        *until_c_leads(plan),
        Step(
            "B returns and follows C.",
            (
                Start(B),
                isr_is(B, C),
                log_end_on_disk(B, kept),
                *epochs(plan, rule, B, are=((0, 0),)),
                *epochs(plan, rule, C, are=((0, 0), *on_election(plan, 2, MANY))),
            ),
            why=_RETURN_OF_B[rule],
            lines=TRUNCATIONS,
        ),
        _halt_of_a(kept) if _halts(plan) else _return_of_a(plan, kept),
    )


def _return_of_a(plan: Plan, kept: int) -> Step:
    rule = rule_of(plan)
    return Step(
        "A returns and follows C.",
        (
            Start(A),
            isr_is(A, B, C),
            leads(C),
            *(log_end_on_disk(node, kept) for node in (A, B, C)),
            *epochs(plan, rule, A, B, are=((0, 0),)),
        ),
        why=_FATE_OF_A[rule],
        lines=TRUNCATIONS,
    )


def _halt_of_a(kept: int) -> Step:
    return Step(
        "A returns, finds that its leader's log ends before its own, and halts.",
        (
            Start(A, until_back=False),
            ended(A),
            isr_is(B, C),
            log_end_on_disk(A, MANY),
            *(log_end_on_disk(node, kept) for node in (B, C)),
        ),
        why="A Kafka of this age does not truncate what only an unclean election could have made"
        " wrong: it stops instead. The last copy is safe, on a broker that does not run.",
        lines=rf"{TRUNCATIONS}|FATAL|[Hh]alt",
    )


def _halts(plan: Plan) -> bool:
    """Tell whether A ends by itself when it finds a leader with less."""
    old = plan.version_numbers < FIRST_THAT_TRUNCATES
    return old and rule_of(plan) is Rule.HIGH_WATERMARK


def _expected(plan: Plan) -> Expected:
    if rule_of(plan) is Rule.HIGH_WATERMARK:
        return Expected(
            valid=Validity.INVALID,
            anomalies=declared(
                plan,
                "lost-write",
                announced=("committed-truncation", "high-watermark-regression"),
            ),
            lost=names(1, MANY),
            read=(),
            moral="All 100 messages were acknowledged by three replicas in sync. No election was"
            " unclean, no setting allowed a loss: one broker was restarted while another one hung,"
            " and then died. That was enough, because C trusted its own high watermark.",
        )
    return Expected(
        valid=Validity.VALID,
        read=names(1, MANY),
        moral="The same restarts, and nothing is lost: C waited to be told where epoch 0 ends.",
    )


def names(first: int, last: int) -> tuple[str, ...]:
    """Return the names of messages from a number to a number."""
    return tuple(f"message{number}" for number in range(first, last + 1))


FORM = Form(
    systems=("kafka:2.8.2", "kafka:0.11.0.3", "kafka:1.1.1", "kafka:3.9.1:zookeeper"),
    plan=values,
    assignment=(A, B, C),
    first=(CONTROLLER,),
    steps=_steps,
    expected=_expected,
    away=lambda plan: (A,) if _halts(plan) else (),
)
