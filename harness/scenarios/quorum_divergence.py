"""An old leader of the quorum writes records that no node copies. It must truncate them later.

KRaft replicates its log by the rules of Raft, but followers fetch as in Kafka (KIP-595). A
follower's fetch names an offset and an epoch. If the leader's log does not have this pair, the
response names the epoch and the offset at which the two logs diverge. The follower truncates its
log at this offset, and fetches again. So the leader-epoch rule of KIP-101 and KIP-279 is a part of
the fetch.
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
    # Long enough to read the old leader's log before a new leader is elected.
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
            "n101 leads the controllers in epoch 1. Their metadata logs are equal.",
            (
                leads_quorum(BROKER, FIRST, epoch=1),
                *(follows(node, FIRST, epoch=1) for node in (FIRST, *others)),
                Produce(),
            ),
            why="This log contains all metadata of the cluster: topics, leaders, ISRs. A record is"
            " committed once a majority of the three controllers has it.",
            lines=_LINES,
        ),
        Step(
            "n101 is cut off from n102 and n103, and is asked for new topics.",
            (
                Cut("apart", apart),
                CreateTopics(names=("uncopied-1", "uncopied-2"), at=FIRST, answered=False),
                longer(FIRST, SECOND, by=2),
            ),
            why="n101 still believes that it leads, and writes the topics into its log. No other"
            " controller copies these records, so they are not committed, and n101 does not answer"
            " the request.",
            lines=_LINES,
        ),
        Step(
            "n103 votes for n102, which leads in epoch 2 and writes records of its own.",
            (
                voted(THIRD, SECOND, epoch=2),
                follows(THIRD, SECOND, epoch=2),
                leads_quorum(BROKER, SECOND, epoch=2),
            ),
            why="Two of three are a majority. From one offset on, the logs differ: n101 has"
            " records of epoch 1, and the other two have records of epoch 2.",
            lines=_LINES,
        ),
        Step(
            "The network heals. n101 learns where epoch 1 ends, truncates its log there, and"
            " fetches again.",
            (
                Join("apart"),
                logged(
                    FIRST,
                    r"Truncated to offset \d+ from Fetch response from leader 102",
                    what="n101 has truncated the uncopied records",
                ),
                follows(FIRST, SECOND, epoch=2),
            ),
            why="n101 fetches with the epoch of its last record. n102 answers that epoch 1 ended"
            " at an earlier offset. So n101 truncates the records that no other controller copied.",
            lines=_LINES,
        ),
        Step(
            "All three logs are equal again. The uncopied topics never existed.",
            (level(FIRST, *others), registered(BROKER), Produce()),
            lines=_LINES,
        ),
    )


def _expected(_plan: Plan) -> Expected:
    return Expected(
        valid=Validity.VALID,
        read=("message1", "message2"),
        moral="A record without a majority is no promise. The old leader never answered the"
        " request for the topics, so it may drop their records. Each epoch had one leader,"
        " although two nodes believed for a while that they led.",
    )


SCENARIO = Scenario(
    name="quorum-divergence",
    title="The old leader of the quorum returns with uncopied records",
    about=__doc__.partition("\n\n")[2],
    systems=_SYSTEMS,
    plan=_plan,
    assignment=lambda _plan: (BROKER,),
    steps=_steps,
    expected=_expected,
    of_quorum=True,
)
