"""A voter that dies is asked for the same vote again: what it said must be on its disk.

Two candidates of one epoch are rare: who stands for election first asks whether it would win
(KIP-996), and the answers come within a moment. Here they are held back, so that both have the
answer of n102 before either has asked for its vote. n101 gets the vote, n102 dies, and n103 asks
what it had wanted to ask all the time.
"""

from harness.scenarios.actions import CreateTopics, Cut, Join, Kill, Produce, Start
from harness.scenarios.conditions import logged, registered
from harness.scenarios.protocol import Condition, Expected, Scenario, Step
from harness.scenarios.quorum import FIRST, SECOND, THIRD, follows, leads_quorum, level
from results.record.plan import Plan
from results.record.plan_parts import ScenarioPlan
from results.record.terms import Judge, Validity

BROKER = "n1"
BUG, FOUND = "vote-not-persisted", "double-vote"
_LINES = r"Vote request|Completed transition to"
_SETTINGS = {
    # The leader writes nothing while it has nothing to do: all logs end alike.
    "metadata.max.idle.interval.ms": "600000",
    # An answer that is held back is waited for.
    "controller.quorum.request.timeout.ms": "90000",
}
_ELECTION, _FETCH = "controller.quorum.election.timeout.ms", "controller.quorum.fetch.timeout.ms"
_PATIENCE = {
    FIRST: {_ELECTION: "10000", _FETCH: "2000"},
    SECOND: {_ELECTION: "60000", _FETCH: "1000"},
    THIRD: {_ELECTION: "60000", _FETCH: "4000"},
}


def _plan(_choices: ScenarioPlan, system: str) -> dict[str, object]:
    return {
        "system": system,
        "nodes": 1,
        "controllers": 3,
        "replication": 1,
        "min_insync": 1,
        "judge": Judge.CONTRACT,
        "broker": _SETTINGS,
        "node": _PATIENCE,
    }


def _asked(voter: str, candidate: str, *, pre_vote: bool, answer: str = "granted") -> Condition:
    kind = "pre-vote" if pre_vote else "vote"
    return logged(
        voter,
        rf"Vote request.*replicaId={candidate[1:]},.*preVote={str(pre_vote).lower()}.* is {answer}",
        what=f"{voter} has answered {candidate}, which asked for its {kind}",
    )


def _is(node: str, state: str) -> Condition:
    return logged(node, f"Completed transition to {state}", what=f"{node} is {state}")


def _steps(plan: Plan) -> tuple[Step, ...]:
    forgets = plan.bug == BUG
    return (
        Step(
            "n101 leads the controllers in epoch 1.",
            (
                leads_quorum(BROKER, FIRST, epoch=1),
                *(follows(node, FIRST, epoch=1) for node in (FIRST, SECOND, THIRD)),
                Produce(),
                level(FIRST, SECOND, THIRD),
            ),
            lines=_LINES,
        ),
        Step(
            "n102's answers are held back, and n101 and n103 do not see each other. Both ask"
            " whether they would win, and n102 says yes to both.",
            (
                Cut("to-first", ((SECOND, FIRST),)),
                Cut("to-third", ((SECOND, THIRD),)),
                Cut("sides", ((FIRST, THIRD), (THIRD, FIRST))),
                CreateTopics(names=("uncopied",), at=FIRST, answered=False),
                _is(SECOND, "Prospective"),
                _asked(SECOND, THIRD, pre_vote=True),
                _asked(SECOND, FIRST, pre_vote=True),
            ),
            lines=_LINES,
        ),
        Step(
            "n102's answer comes to n101, which stands for election, and its request waits. n102"
            " gives it its vote, and that answer is held back.",
            (
                Cut("from-first", ((FIRST, SECOND),)),
                Join("to-first"),
                _is(FIRST, "Candidate"),
                Cut("to-first-again", ((SECOND, FIRST),)),
                Join("from-first"),
                _asked(SECOND, FIRST, pre_vote=False),
            ),
            lines=_LINES,
        ),
        Step(
            "n102's answer comes to n103, which stands for election in the same epoch, and its"
            " request waits. n101 and n102 are killed.",
            (
                Cut("from-third", ((THIRD, SECOND),)),
                Join("to-third"),
                _is(THIRD, "Candidate"),
                Kill(FIRST),
                Kill(SECOND),
            ),
            lines=_LINES,
        ),
        Step(
            "n102 returns, and is asked by n103.",
            (
                Join("from-third"),
                Join("to-first-again"),
                Start(SECOND, until_back=False),
                _asked(SECOND, THIRD, pre_vote=False, answer="granted" if forgets else "rejected"),
            ),
            lines=_LINES,
        ),
        Step(
            "All are back, and one of them leads.",
            (Join("sides"), Start(FIRST, until_back=False), registered(BROKER), Produce()),
            lines=_LINES,
        ),
    )


def _expected(plan: Plan) -> Expected:
    if plan.bug == BUG:
        return Expected(
            valid=Validity.INVALID,
            anomalies=frozenset({FOUND}),
            moral="n102 voted for both: had n101 had its answer, there were two leaders.",
        )
    return Expected(
        valid=Validity.VALID,
        read=("message1", "message2"),
        moral="A vote is on the disk before it is given; who returns knows what it said.",
    )


SCENARIO = Scenario(
    name="forgotten-vote",
    title="A voter returns, and is asked for the vote that it has given",
    about=__doc__.partition("\n\n")[2],
    systems=("reference:controllers",),
    plan=_plan,
    assignment=lambda _plan: (BROKER,),
    steps=_steps,
    expected=_expected,
    of_quorum=True,
)
