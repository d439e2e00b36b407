"""After a restart, a voter must still know its vote, because the vote is on its disk.

Two candidates in one epoch are rare, because a node asks the others before an election whether it
would win (KIP-996), and normally they respond at once. In this scenario, the network delays the
responses of node n102. So both n101 and n103 know that n102 would vote for them, before one of them
asks n102 for a vote. Node n101 gets the vote, and n102 dies. Then n103 asks n102 for a vote in the
same epoch.
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
    # An idle leader writes nothing, so all logs end at the same offset.
    "metadata.max.idle.interval.ms": "600000",
    # Long enough for a delayed response.
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
            "The network delays n102's answers, and n101 and n103 do not see each other. Both ask"
            " whether they would win, and n102 answers both with yes.",
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
            "n102's answer reaches n101. n101 becomes a candidate, and its vote request is delayed."
            " Then n102 gives n101 its vote, and that answer is delayed, too.",
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
            "n102's answer reaches n103. n103 becomes a candidate in the same epoch, and its vote"
            " request is delayed. n101 and n102 are killed.",
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
            "n102 returns, and n103 asks it for its vote.",
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
            moral="n102 voted for both. If n101 had received its vote, there would have been two"
            " leaders.",
        )
    return Expected(
        valid=Validity.VALID,
        read=("message1", "message2"),
        moral="A voter writes its vote to disk before it answers. After a restart it still knows"
        " its vote.",
    )


SCENARIO = Scenario(
    name="forgotten-vote",
    title="A voter returns, and a second candidate asks for its vote",
    about=__doc__.partition("\n\n")[2],
    systems=("reference:controllers",),
    plan=_plan,
    assignment=lambda _plan: (BROKER,),
    steps=_steps,
    expected=_expected,
    of_quorum=True,
)
