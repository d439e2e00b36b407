"""Example 1 of KIP-101: a follower trusts its own high watermark, and a message is lost.

The high watermark of a follower is one fetch behind the high watermark of the leader. Suppose that
the follower restarts at that moment. By the old rule, the follower truncates its log to its own
high watermark before it follows. So it drops a message that was committed. If it then becomes the
leader, the message is lost. With leader epochs (KIP-101), the follower asks instead where its last
epoch ends, and keeps the message.

In the article's form of this scenario, an unclean election is necessary, because a broker that was
down is not in sync when it returns. The clean forms need no unclean election.
"""

from harness.scenarios import leader_epoch_1_move, leader_epoch_1_restart
from harness.scenarios.actions import AskEpochEnd, Cut, Join, Kill, Produce, Start
from harness.scenarios.conditions import (
    high_watermark_on_disk,
    isr_is,
    leads,
    log_end_on_disk,
    registered,
    unregistered,
)
from harness.scenarios.declared import declared
from harness.scenarios.forms import Form, rule_of, told_in_forms
from harness.scenarios.leader_epochs import (
    LONG_WAIT_MS,
    TRUNCATIONS,
    article_values,
    begins_epoch,
    epochs,
    follows,
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

_RETURN_OF_B = {
    Rule.HIGH_WATERMARK: "B returns. It cannot hear A, but by this rule it need not ask. It"
    " truncates its log to its own high watermark, 1, and so loses message2.",
    Rule.LEADER_EPOCH: "B returns. It cannot hear A, so it does not know where epoch 0 ends. It"
    " truncates nothing.",
}
_DIFFERENCE = (
    "The two rules differ only in this: what B does with its log before it has fetched anything."
)
_WHY_OF_B = {
    Rule.HIGH_WATERMARK: f"{_DIFFERENCE} If A did not die so soon, B would fetch message2 again."
    " Before the link failed, the story asked A where epoch 0 ends. By this rule, no broker knows"
    " epochs.",
    Rule.LEADER_EPOCH: f"{_DIFFERENCE} Before the link failed, the story asked A, as B would do:"
    " where does epoch 0 end? The answer was offset 2, where B's log ends. So B has nothing to"
    " truncate, whether it gets this answer or not.",
}
_RETURN_OF_A = {
    Rule.HIGH_WATERMARK: "A truncates to its own high watermark as well. That is 2, so A keeps"
    " message2 at offset 1, where B has message3. A fetches from offset 2 on. No broker notices"
    " the difference. The only copy of message2 is on a broker that does not lead.",
    Rule.LEADER_EPOCH: "A asks where epoch 0, the last epoch of its log, ends. B answers with"
    " offset 2, where A's log ends, too. A truncates nothing, and fetches message3. Both files"
    " have the lines: epoch 0 starts at offset 0, epoch {epoch} at offset 2.",
}


def _steps(plan: Plan) -> tuple[Step, ...]:
    return (*_until_b_returns(plan), *_until_a_returns(plan))


def _kept(rule: Rule) -> int:
    """Return the log end offset of broker B after its return."""
    return 1 if rule is Rule.HIGH_WATERMARK else 2


def _of_b(plan: Plan) -> int:
    """Return the epoch in which B leads. It is 2 if an earlier ISR change raised it, else 1."""
    return 1 + raised_by_isr(plan)


def _until_b_returns(plan: Plan) -> tuple[Step, ...]:
    rule = rule_of(plan)
    return (
        Step(
            "message1 and message2 are written to A (n1) with acks=all, and B (n2) fetches both.",
            (
                leads(A),
                Produce(count=2),
                *(log_end_on_disk(node, 2) for node in (A, B)),
                high_watermark_on_disk(A, 2),
                high_watermark_on_disk(B, 1),
                *epochs(plan, rule, A, B, are=((0, 0),)),
            ),
            why="B's fetch at offset 2 shows A that B has both. So A's high watermark is 2, and A"
            " answers the producer. B learns this only with the next response, which waits at A"
            " for new records. B's own high watermark is still 1.",
        ),
        Step(
            "B is killed; its session ends, and A alone is in sync.",
            (
                Kill(B),
                unregistered(B),
                isr_is(A),
                *leads_alone(plan, A),
                *epochs(plan, rule, A, are=((0, 0), *_alone(plan))),
            ),
            why="Nothing is lost yet: both logs have message1 and message2.",
        ),
        Step(
            _RETURN_OF_B[taught(rule)],
            (
                AskEpochEnd(node=A, epoch=0),
                # Do not pause A instead: a paused broker would lose its session after some time.
                Cut("A is not heard", ((A, B),)),
                Start(B, until_back=False),
                registered(B),
                follows(B, A, plan),
                log_end_on_disk(B, _kept(rule)),
                high_watermark_on_disk(B, 1),
                *epochs(plan, rule, B, are=((0, 0),)),
            ),
            why=_WHY_OF_B[taught(rule)],
            lines=TRUNCATIONS,
        ),
    )


def _until_a_returns(plan: Plan) -> tuple[Step, ...]:
    rule = rule_of(plan)
    kept = _kept(rule)
    return (
        Step(
            "A dies. B, the only broker left, becomes the leader.",
            (
                Kill(A),
                Join("A is not heard"),
                unregistered(A),
                leads(B),
                isr_is(B),
                begins_epoch(B, _of_b(plan)),
                *epochs(plan, rule, B, are=((0, 0), *on_election(plan, _of_b(plan), kept))),
            ),
            why="B was not in sync, so this election is unclean. The topic allows it.",
        ),
        Step(
            f"message3 is written to B, at offset {kept}.",
            (
                Produce(),
                log_end_on_disk(B, kept + 1),
                high_watermark_on_disk(B, kept + 1),
                *epochs(plan, rule, B, are=((0, 0), (_of_b(plan), kept))),
            ),
        ),
        Step(
            "A returns and follows B.",
            (
                Start(A),
                isr_is(A, B),
                leads(B),
                log_end_on_disk(A, kept + 1),
                high_watermark_on_disk(A, kept + 1),
                *_epochs_at_the_end(plan),
            ),
            why=_RETURN_OF_A[taught(rule)].format(epoch=_of_b(plan)),
            lines=TRUNCATIONS,
        ),
    )


def _alone(plan: Plan) -> tuple[tuple[int, int], ...]:
    """Return the epoch entry for the time when only A was in the ISR, if there is such an epoch."""
    return on_election(plan, 1, 2) if raised_by_isr(plan) else ()


def _epochs_at_the_end(plan: Plan) -> tuple[Condition, ...]:
    """Wait for the epoch files of A and B. By the old rule, A gets no records from B's epoch."""
    rule = rule_of(plan)
    of_b = (_of_b(plan), _kept(rule))
    of_a = () if rule is Rule.HIGH_WATERMARK else (of_b,)
    return (
        *epochs(plan, rule, A, are=((0, 0), *of_a)),
        *epochs(plan, rule, B, are=((0, 0), of_b)),
    )


def _expected(plan: Plan) -> Expected:
    if rule_of(plan) is Rule.HIGH_WATERMARK:
        return Expected(
            valid=Validity.INVALID,
            anomalies=declared(
                plan,
                "lost-write",
                "inconsistent-offsets",
                "log-divergence",
                announced=(
                    "committed-truncation",
                    "high-watermark-regression",
                    *of_epochs(plan, Rule.HIGH_WATERMARK),
                ),
            ),
            lost=("message2",),
            read=("message1", "message3"),
            moral="message2 was acknowledged, and both replicas had it. B dropped it, because its"
            " own high watermark did not yet show that message2 was committed. A died before B"
            " could fetch it again, so B led without it.",
        )
    return Expected(
        valid=Validity.VALID,
        read=("message1", "message2", "message3"),
        moral="B does not trust its own high watermark. It keeps its messages of epoch 0 until a"
        " leader reports where that epoch ends. Nothing is truncated and nothing is lost, although"
        " the same brokers died at the same moments.",
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
        **article_values(rule, system, fetch_wait_ms=LONG_WAIT_MS),
        "judge": Judge.STRICT,
    },
    assignment=(A, B),
    first=(CONTROLLER,),
    steps=_steps,
    expected=_expected,
)

SCENARIO = told_in_forms(
    name="leader-epoch-1",
    title="An acknowledged message is lost",
    about=__doc__.partition("\n\n")[2] if __doc__ else "",
    forms={
        ("article", None): ARTICLE,
        ("clean", "restart"): leader_epoch_1_restart.FORM,
        ("clean", "move"): leader_epoch_1_move.FORM,
    },
)
