"""Example 1 of KIP-101: an acknowledged message is lost, because a follower trusts its mark.

A follower's high watermark lags behind its leader's by one fetch. If it restarts in between, and
truncates to its own mark before it follows, it throws away a message that was committed; if it
then becomes the leader, the message is gone. With leader epochs it asks where the epoch ends
instead, and keeps it. https://cwiki.apache.org/confluence/x/oQQIB
"""

from harness.scenarios.actions import AskEpochEnd, Kill, Pause, Produce, Start
from harness.scenarios.conditions import (
    high_watermark_on_disk,
    isr_is,
    leads,
    log_end_on_disk,
    registered,
    unregistered,
)
from harness.scenarios.protocol import Choice, Expected, Scenario, Step
from harness.scenarios.settings import OLD_FORMAT, SLOW_FETCH
from results.record.plan import Plan, ScenarioPlan
from results.record.terms import Judge, Rule, Validity

A, B, CONTROLLER = "n1", "n2", "n3"


def _plan(choices: ScenarioPlan, system: str) -> dict[str, object]:
    return {
        "system": system,
        "nodes": 3,
        "replication": 2,
        "min_insync": 1,
        "judge": Judge.STRICT,
        "broker": {
            **SLOW_FETCH,
            **(OLD_FORMAT if choices.rule is Rule.HIGH_WATERMARK else {}),
            "unclean.leader.election.enable": "true",
        },
    }


def _steps(plan: Plan) -> tuple[Step, ...]:
    return (
        Step(
            "message1 and message2 are written to A (n1) with acks=all, and B (n2) fetches both.",
            (Produce(count=2), high_watermark_on_disk(B, 1), high_watermark_on_disk(A, 2)),
            why="B's fetch at offset 2 tells A that B has both: A's high watermark is 2, and the"
            " producer gets its answer. B hears of it only with the next response, so its own"
            " high watermark is still 1.",
        ),
        Step(
            "B is killed; its session ends, and A alone is in sync.",
            (Kill(B), unregistered(B), isr_is(A)),
        ),
        Step(
            "A stops answering, and B returns.",
            (AskEpochEnd(node=A, epoch=0), Pause(A), Start(B, until_back=False), registered(B)),
            why="What B does now with its log, before it has fetched anything, is the whole"
            " difference between the two rules.",
        ),
        Step(
            "A dies. B, the only one left, becomes the leader.",
            (Kill(A), leads(B)),
        ),
        Step("message3 is written to B.", (Produce(), high_watermark_on_disk(B, _after(plan)))),
        Step(
            "A returns and follows B.",
            (Start(A), isr_is(A, B), log_end_on_disk(A, _after(plan))),
        ),
    )


def _after(plan: Plan) -> int:
    """Return the log's end after message3: at offset 1 or 2."""
    return 2 if _rule(plan) is Rule.HIGH_WATERMARK else 3


def _rule(plan: Plan) -> Rule | None:
    return plan.scenario.rule if plan.scenario else None


def _expected(plan: Plan) -> Expected:
    if _rule(plan) is Rule.HIGH_WATERMARK:
        return Expected(
            valid=Validity.INVALID,
            anomalies=frozenset({"lost-write"}),
            lost=("message2",),
            read=("message1", "message3"),
            moral="message2 was acknowledged, both replicas had it, and B threw it away: its own"
            " high watermark did not know yet that message2 was committed.",
        )
    return Expected(
        valid=Validity.VALID,
        read=("message1", "message2", "message3"),
        moral="B asked nobody's mark: it keeps what belongs to epoch 0 until a leader tells it"
        " where that epoch ends. Nothing is truncated, nothing is lost.",
    )


SCENARIO = Scenario(
    name="leader-epoch-1",
    title="An acknowledged message is lost",
    about=__doc__.partition("\n\n")[2] if __doc__ else "",
    systems=("kafka:2.8.2",),
    choices={"rule": Choice(values=("high-watermark", "leader-epoch"))},
    plan=_plan,
    assignment=lambda _plan: (A, B),
    first=lambda _plan: (CONTROLLER,),
    steps=_steps,
    expected=_expected,
)
