"""The controllers' leader is killed, paused, and cut off. Each time a new epoch begins.

Elections of KRaft's quorum follow Raft (KIP-595) with pre-vote (KIP-996). A node that hears no
leader asks first whether it would win. If it would win, it becomes a candidate in a new epoch, and
votes for itself. When a majority has voted for it, it leads. Each node writes its vote to
`quorum-state` before it answers. So no node votes twice in an epoch, even after a crash.
"""

from harness.scenarios.actions import Cut, Join, Kill, Pause, Produce, Resume, Start
from harness.scenarios.conditions import registered
from harness.scenarios.protocol import Condition, Expected, Scenario, Step
from harness.scenarios.quorum import (
    CONTROLLERS,
    FIRST,
    QUIET,
    SECOND,
    THIRD,
    TIMEOUTS,
    follows,
    leads_quorum,
    voted,
)
from results.record.plan import Plan
from results.record.plan_parts import ScenarioPlan
from results.record.terms import Judge, Validity

BROKER = "n1"
_LINES = r"Becoming the active controller|Renouncing|In the new epoch|to Prospective state"


def _plan(_choices: ScenarioPlan, system: str) -> dict[str, object]:
    return {
        "system": system,
        "nodes": 1,
        "controllers": 3,
        "replication": 1,
        "min_insync": 1,
        "judge": Judge.CONTRACT,
        "broker": QUIET,
        "node": TIMEOUTS,
    }


def _elected(leader: str, voter: str, *, epoch: int) -> tuple[Condition, ...]:
    return (
        voted(voter, leader, epoch=epoch),
        follows(leader, leader, epoch=epoch),
        follows(voter, leader, epoch=epoch),
        leads_quorum(BROKER, leader, epoch=epoch),
    )


def _steps(_plan: Plan) -> tuple[Step, ...]:
    machines = (SECOND, THIRD, BROKER)
    alone = tuple((FIRST, other) for other in machines) + tuple(
        (other, FIRST) for other in machines
    )
    return (
        Step(
            "n101 leads the controllers in epoch 1.",
            (
                leads_quorum(BROKER, FIRST, epoch=1),
                *(follows(node, FIRST, epoch=1) for node in CONTROLLERS),
                Produce(),
            ),
            lines=_LINES,
        ),
        Step(
            "n101 is killed. n102 becomes a candidate, n103 votes for it, and epoch 2 begins.",
            (Kill(FIRST), *_elected(SECOND, THIRD, epoch=2), Produce()),
            why="n103 notices the death first. But n102 still hears the old leader, so it does not"
            " vote for n103. Later n102 asks for votes, and n103 can vote for it. The broker serves"
            " clients during all this.",
            lines=_LINES,
        ),
        Step(
            "n101 returns, and follows n102 in epoch 2.",
            (Start(FIRST), follows(FIRST, SECOND, epoch=2)),
            lines=_LINES,
        ),
        Step(
            "n102 is paused. n103 votes for n101, which leads in epoch 3.",
            (Pause(SECOND), *_elected(FIRST, THIRD, epoch=3), Produce()),
            why="A paused leader does not know that its epoch is over. Its quorum-state still"
            " names itself as leader, in epoch 2. That is not a second leader in one epoch.",
            lines=_LINES,
        ),
        Step(
            "n102 continues, learns of epoch 3, and follows n101.",
            (Resume(SECOND), follows(SECOND, FIRST, epoch=3)),
            lines=_LINES,
        ),
        Step(
            "n101 is cut off from all other nodes. n102 leads again, in epoch 4.",
            (Cut("alone", alone), *_elected(SECOND, THIRD, epoch=4), Produce()),
            why="A leader that hears nothing from a majority for some time resigns by itself"
            " (check-quorum).",
            lines=_LINES,
        ),
        Step(
            "The network heals: all three follow n102 in epoch 4.",
            (
                Join("alone"),
                *(follows(node, SECOND, epoch=4) for node in CONTROLLERS),
                registered(BROKER),
                Produce(),
            ),
            lines=_LINES,
        ),
    )


def _expected(_plan: Plan) -> Expected:
    return Expected(
        valid=Validity.VALID,
        read=tuple(f"message{number}" for number in range(1, 6)),
        moral="There were four epochs with one leader each. Every vote is on disk before it is"
        " given, and only one candidate can get a majority in an epoch.",
    )


SCENARIO = Scenario(
    name="quorum-failover",
    title="The quorum's leader is killed, paused, and cut off",
    about=__doc__.partition("\n\n")[2],
    systems=("kafka:4.3.1:controllers", "reference:controllers"),
    plan=_plan,
    assignment=lambda _plan: (BROKER,),
    steps=_steps,
    expected=_expected,
    of_quorum=True,
)
