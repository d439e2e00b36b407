"""Example 1 of KIP-101: an acknowledged message is lost, because a follower trusts its own mark.

A follower's high watermark lags behind its leader's by one fetch. If it restarts in between, and
truncates to its own mark before it follows, it throws away a message that was committed; if it
then becomes the leader, the message is gone. With leader epochs (KIP-101) it asks where its last
epoch ends instead, and keeps the message.

The article's form needs an unclean election: a broker that was down is not in sync when it returns.
The clean forms need none.
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
    Rule.HIGH_WATERMARK: "B returns. It cannot hear A, but it need not ask: it truncates its log to"
    " its own high watermark, 1, and message2 is gone from it.",
    Rule.LEADER_EPOCH: "B returns. It cannot hear A, so it does not know where epoch 0 ends: it"
    " truncates nothing.",
}
_DIFFERENCE = (
    "What B does with its log before it has fetched anything is the whole difference between the"
    " rules."
)
_WHY_OF_B = {
    Rule.HIGH_WATERMARK: f"{_DIFFERENCE} Had A lived a little longer, B would have fetched message2"
    " again. A was asked here, before the link failed, where epoch 0 ends: by this rule nobody"
    " knows epochs.",
    Rule.LEADER_EPOCH: f"{_DIFFERENCE} A was asked here in B's place, before the link failed, where"
    " epoch 0 ends: at offset 2, where B's log ends. There is nothing to truncate, with the answer"
    " or without it.",
}
_RETURN_OF_A = {
    Rule.HIGH_WATERMARK: "A truncates to its own high watermark as well. That is 2, so it keeps"
    " message2 at offset 1, where B has message3, and fetches from offset 2 on. Nobody notices; the"
    " only copy of message2 is on a broker that does not lead.",
    Rule.LEADER_EPOCH: "A tells that the last epoch of its log is 0, and that one ends at B at"
    " offset 2, where A's log ends too. A truncates nothing, and fetches message3. Both files say:"
    " epoch 0 starts at offset 0, epoch {epoch} at offset 2.",
}


def _steps(plan: Plan) -> tuple[Step, ...]:
    return (*_until_b_returns(plan), *_until_a_returns(plan))


def _kept(rule: Rule) -> int:
    """Return where B's log ends when it has returned."""
    return 1 if rule is Rule.HIGH_WATERMARK else 2


def _of_b(plan: Plan) -> int:
    """Return the epoch in which B leads: one election later, and B's own departure before it."""
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
            why="B's fetch at offset 2 tells A that B has both: A's high watermark is 2, and the"
            " producer gets its answer. B hears of it only with the next response, which waits at"
            " A for something new: B's own high watermark is still 1.",
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
            why="Nothing is lost yet: message1 and message2 lie in both logs.",
        ),
        Step(
            _RETURN_OF_B[taught(rule)],
            (
                AskEpochEnd(node=A, epoch=0),
                # A pause would do as well, but only until A's session ends; this has no deadline.
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
            "A dies. B, the only one left, becomes the leader.",
            (
                Kill(A),
                Join("A is not heard"),
                unregistered(A),
                leads(B),
                isr_is(B),
                begins_epoch(B, _of_b(plan)),
                *epochs(plan, rule, B, are=((0, 0), *on_election(plan, _of_b(plan), kept))),
            ),
            why="B was not in sync, so this election is unclean: the topic allows it.",
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
    """Return A's line of the epoch in which it is alone, if that is one."""
    return on_election(plan, 1, 2) if raised_by_isr(plan) else ()


def _epochs_at_the_end(plan: Plan) -> tuple[Condition, ...]:
    """Wait for both files; by the old rule A never gets a record of B's epoch."""
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
            moral="message2 was acknowledged, both replicas had it, and B threw it away: its own"
            " high watermark did not know yet that message2 was committed. When A died before B"
            " could fetch it again, B led without it.",
        )
    return Expected(
        valid=Validity.VALID,
        read=("message1", "message2", "message3"),
        moral="B does not trust its own high watermark: it keeps what it has of epoch 0 until a"
        " leader tells it where that epoch ends. Nothing is truncated, nothing is lost, though the"
        " same brokers died at the same moments.",
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
