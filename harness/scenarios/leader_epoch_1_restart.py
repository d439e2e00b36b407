"""The clean form of example 1 with restarts. All 100 messages are lost; no setting allows this.

The scenario has no unclean election, three replicas, acks=all and min.insync.replicas=2. B is
paused while A hands its leadership to B. C becomes B's follower, and truncates to its own high
watermark before it can fetch. Then B dies. C leads with an empty log, although C never left the
ISR.
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
"""The first Kafka version in which a follower truncates its log if the leader's log is shorter. A
follower of an older version halts instead, if unclean elections are off."""

_FATE_OF_C = {
    Rule.HIGH_WATERMARK: "C becomes B's follower, and truncates its log to its own high watermark,"
    " 0. C would fetch everything again from B if B answered.",
    Rule.LEADER_EPOCH: "C becomes B's follower. Before it truncates anything, it must ask B where"
    " epoch 0 ends. B does not answer, so C keeps its messages.",
}
_RETURN_OF_B = {
    Rule.HIGH_WATERMARK: "B also has all 100 messages. Its own high watermark is 0, so it"
    " truncates them.",
    Rule.LEADER_EPOCH: "C answers that epoch 0 ends at offset 100, as in B's log. Nothing is"
    " truncated.",
}
_FATE_OF_A = {
    Rule.HIGH_WATERMARK: "A's log was the last one with the messages. The leader's log is empty,"
    " so A truncates its own log.",
    Rule.LEADER_EPOCH: "C answers that epoch 0 ends at offset 100, as in A's log. Nothing is"
    " truncated.",
}


def values(rule: Rule, system: str) -> dict[str, object]:
    """Return the plan's values for a rule and a system. B is paused, but keeps its session."""
    hung = {"zookeeper.session.timeout.ms": str(HUNG_SESSION_MS)}
    plan = clean_values(rule, system, fetch_wait_ms=LONG_WAIT_MS)
    return {**plan, "judge": Judge.CONTRACT, "node": {B: hung}}


def until_c_leads(plan: Plan) -> tuple[Step, ...]:
    """Return the steps until C leads. Example 2 begins with these steps, too."""
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
            why="All three brokers have all messages, and the producer has its answers. B and C"
            " learn only with the next response that the messages are committed. Their own high"
            " watermarks are still 0.",
        ),
        Step(
            "B hangs: it is paused. No other broker notices, and all three count as in sync.",
            (Pause(B), isr_is(A, B, C)),
        ),
        Step(
            "A is restarted for maintenance: it hands its leadership to B and ends.",
            (
                # B must be seen as leader before its session ends.
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
        why="If unclean elections are off, a broker of this version does not truncate its log when"
        " the leader's log is shorter. It halts instead. The last copy is safe, on a broker that"
        " does not run.",
        lines=rf"{TRUNCATIONS}|FATAL|[Hh]alt",
    )


def _halts(plan: Plan) -> bool:
    """Return whether broker A halts when the leader's log is shorter than A's log."""
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
            moral="Three replicas in sync had all 100 messages when they were acknowledged. No"
            " election was unclean, and no setting allowed a loss. One broker was restarted while"
            " another one hung and then died. That was enough, because C trusted its own high"
            " watermark.",
        )
    return Expected(
        valid=Validity.VALID,
        read=names(1, MANY),
        moral="With the same restarts, nothing is lost: C truncated nothing before it knew where"
        " epoch 0 ends.",
    )


def names(first: int, last: int) -> tuple[str, ...]:
    """Return the names of the messages from `first` to `last`."""
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
