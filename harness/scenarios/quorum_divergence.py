"""The quorum's leader writes records that nobody copies; a later epoch has no room for them.

KRaft's log is replicated by Raft's rules with Kafka's fetches (KIP-595): a follower that fetches
with an offset and an epoch that its leader does not know so is told, in the answer, at which epoch
and offset their logs part; it truncates there, and fetches again. It is the leader-epoch rule of
KIP-101 and KIP-279, built into the fetch itself.
"""

from harness.scenarios.actions import CreateTopics, Cut, Join, Produce
from harness.scenarios.conditions import logged, registered
from harness.scenarios.protocol import Expected, Scenario, Step
from harness.scenarios.quorum import (
    FIRST,
    QUIET,
    SECOND,
    THIRD,
    TIMEOUTS,
    follows,
    leads_quorum,
    level,
    longer,
    voted,
)
from results.record.plan import Plan
from results.record.plan_parts import ScenarioPlan
from results.record.terms import Judge, Validity

BROKER = "n1"
_SYSTEMS = ("kafka:4.3.1:controllers", "reference:controllers")
_LINES = r"Truncated to offset|Becoming the active controller|Renouncing|In the new epoch"

_FETCH_TIMEOUT = "controller.quorum.fetch.timeout.ms"
_PATIENT = {
    # Time enough to look at the old leader's log before there is a new one.
    FIRST: {_FETCH_TIMEOUT: "12000"},
    SECOND: {_FETCH_TIMEOUT: "8000"},
    THIRD: {_FETCH_TIMEOUT: "5000"},
}


def _plan(_choices: ScenarioPlan, system: str) -> dict[str, object]:
    return {
        "system": system,
        "nodes": 1,
        "controllers": 3,
        "replication": 1,
        "min_insync": 1,
        "judge": Judge.CONTRACT,
        "broker": QUIET,
        "node": {node: own | _PATIENT[node] for node, own in TIMEOUTS.items()},
    }


def _steps(_plan: Plan) -> tuple[Step, ...]:
    others = (SECOND, THIRD)
    apart = tuple((FIRST, other) for other in others) + tuple((other, FIRST) for other in others)
    return (
        Step(
            "n101 leads the controllers in epoch 1; their metadata logs are the same.",
            (
                leads_quorum(BROKER, FIRST, epoch=1),
                *(follows(node, FIRST, epoch=1) for node in (FIRST, *others)),
                Produce(),
            ),
            why="Everything that the cluster knows of itself is a record of this log: topics,"
            " leaders, ISRs. A record counts once a majority of the three has it.",
            lines=_LINES,
        ),
        Step(
            "n101 is cut off from n102 and n103, and is asked for new topics.",
            (
                Cut("apart", apart),
                CreateTopics(names=("uncopied-1", "uncopied-2"), at=FIRST, answered=False),
                longer(FIRST, SECOND, by=2),
            ),
            why="It still takes itself for the leader, and writes the topics into its log. Nobody"
            " copies them, so they are not committed, and nobody is answered.",
            lines=_LINES,
        ),
        Step(
            "n103 votes for n102, which leads in epoch 2 and writes records of its own.",
            (
                voted(THIRD, SECOND, epoch=2),
                follows(THIRD, SECOND, epoch=2),
                leads_quorum(BROKER, SECOND, epoch=2),
            ),
            why="Two of three are a majority. From the same offset on the logs now tell different"
            " stories: n101's in epoch 1, the others' in epoch 2.",
            lines=_LINES,
        ),
        Step(
            "The network heals. n101 is told where epoch 1 ends, truncates, and fetches again.",
            (
                Join("apart"),
                logged(
                    FIRST,
                    r"Truncated to offset \d+ from Fetch response from leader 102",
                    what="n101 has truncated what nobody copied",
                ),
                follows(FIRST, SECOND, epoch=2),
            ),
            why="n101 fetches with the epoch of its last record. n102 answers that epoch 1 ended"
            " earlier, and at which offset: n101 cuts off what nobody copied.",
            lines=_LINES,
        ),
        Step(
            "All three logs are the same again; the uncopied topics were never there.",
            (level(FIRST, *others), registered(BROKER), Produce()),
            lines=_LINES,
        ),
    )


def _expected(_plan: Plan) -> Expected:
    return Expected(
        valid=Validity.VALID,
        read=("message1", "message2"),
        moral="A record that no majority has is no promise: the old leader never answered those"
        " who asked for the topics, so it may throw their records away. There was one leader in"
        " each epoch, though for a while two nodes thought that they led.",
    )


SCENARIO = Scenario(
    name="quorum-divergence",
    title="The old leader of the quorum returns with records that nobody copied",
    about=__doc__.partition("\n\n")[2],
    systems=_SYSTEMS,
    plan=_plan,
    assignment=lambda _plan: (BROKER,),
    steps=_steps,
    expected=_expected,
    of_quorum=True,
)
