"""How a message is committed: the log end and the high watermark of each replica, fetch by fetch.

Followers fetch from their leader, and a fetch at offset n says: I have everything below n. So the
leader learns with the next fetch that a follower has a record; its high watermark is the lowest
log end of those in sync; and followers learn of it with the response after that.
https://kafka.apache.org/documentation/#replication

To be looked at, the moments are stretched: requests of the followers are held up on their way to
the leader, while its responses still arrive, and a fetch waits up to eight seconds at the leader.
"""

from harness.scenarios.actions import Answered, Cut, Join, Produce
from harness.scenarios.conditions import (
    high_watermark,
    isr_is,
    leads,
    log_end,
    registered,
)
from harness.scenarios.protocol import Condition, Expected, Scenario, Step
from harness.scenarios.settings import STEADY_LEADERS
from results.record.plan import Plan
from results.record.plan_parts import ScenarioPlan
from results.record.terms import Mode, Validity

FIRST_THAT_RECKONS_ANEW = (3,)
"""Older leaders leave their mark as it is when the ISR shrinks (KAFKA-13091), from 2.7 on."""
LEADER, NEAR, FAR, CONTROLLER = "n1", "n2", "n3", "n4"
FOLLOWERS = (NEAR, FAR)
_LINES = r"(Shrinking|Expanding) ISR|ISR updated to|out of sync replicas"

_FETCHES = {
    # A fetch waits so long at the leader for something new: the window in which a follower's high
    # watermark is behind. (2.4.0 to 2.5.0 would answer at once: KAFKA-9731.)
    "replica.fetch.wait.max.ms": "8000",
    # A follower that fetched nothing for so long while there was something is behind.
    "replica.lag.time.max.ms": "12000",
    # Longer than the wait; after so long a follower gives up on an answer that was cut off. From
    # 3.x on it is the second that counts.
    "replica.socket.timeout.ms": "10000",
    "request.timeout.ms": "10000",
}


def _plan(_choices: ScenarioPlan, system: str) -> dict[str, object]:
    # Whoever is the controller must hear the leader, while other brokers do not.
    alone = system.endswith(":controllers")
    return {
        "system": system,
        "nodes": 3 if alone else 4,
        **({"controllers": 1} if alone else {}),
        "replication": 3,
        "min_insync": 1,
        "broker": {**STEADY_LEADERS, **_FETCHES},
    }


def _at(node: str, *, end: int, mark: int) -> tuple[Condition, Condition]:
    return (log_end(node, end), high_watermark(node, mark))


def _steps(plan: Plan) -> tuple[Step, ...]:
    return (*_committed(), *_falls_behind(plan))


def _committed() -> tuple[Step, ...]:
    return (
        Step(
            "message1 is written at offset 0. n2 and n3 fetch it, and then fetch at offset 1.",
            (
                leads(LEADER, epoch=0),
                Produce(),
                *_at(LEADER, end=1, mark=1),
                *(it for node in FOLLOWERS for it in _at(node, end=1, mark=0)),
            ),
            why="A fetch at offset 1 is what commits offset 0: it says that the follower has"
            " everything below 1. As soon as n1 has heard it of both, its high watermark is 1, and"
            " the producer has its answer. n2 and n3 are told with the response to that fetch,"
            " which waits at n1 for something to come: their own marks still say 0.",
        ),
        Step(
            "Slowly now: message2 is sent, while no request of n2 and n3 reaches n1.",
            (
                Cut("requests", tuple((node, LEADER) for node in FOLLOWERS)),
                Produce(wait=False),
                *_at(LEADER, end=2, mark=1),
                *(it for node in FOLLOWERS for it in _at(node, end=2, mark=1)),
            ),
            why="n1 has appended message2 at offset 1, and answered the fetches that waited: n2 and"
            " n3 have it too, and with it the mark of that moment, 1. But n1 does not know that"
            " they have it. message2 is on three machines, and is not committed: nobody can read"
            " it, and its producer has no answer.",
        ),
        Step(
            "The next requests of n2 and n3 arrive: fetches at offset 2.",
            (
                Join("requests"),
                *_at(LEADER, end=2, mark=2),
                Answered(),
                *(it for node in FOLLOWERS for it in _at(node, end=2, mark=1)),
            ),
            why="They commit offset 1: n1's high watermark is 2, and the producer has its answer. A"
            " follower's mark is always one response behind: one that trusted its own mark would"
            " not know of message2 (see leader-epoch-1).",
        ),
        Step(
            "The fetches at offset 2 have waited long enough, and are answered with no record.",
            tuple(it for node in (LEADER, *FOLLOWERS) for it in _at(node, end=2, mark=2)),
            why="An empty response, too, has the leader's high watermark: now all marks say 2.",
        ),
    )


def _falls_behind(plan: Plan) -> tuple[Step, ...]:
    return (
        Step(
            "n1 and n3 are cut off from each other, and message3 is sent with acks=all.",
            (
                Cut("apart", ((LEADER, FAR), (FAR, LEADER))),
                Produce(wait=False, within_s=60),
                *_at(LEADER, end=3, mark=2),
                log_end(NEAR, 3),
                log_end(FAR, 2),
                isr_is(LEADER, NEAR, FAR),
            ),
            why="n2 fetches message3, n3 cannot. n3 is still in sync, as far as anybody knows: n1"
            " waits for it, and the producer waits for n1.",
        ),
        _shrunk(plan),
        Step(
            "n3 reaches n1 again, fetches what it has missed, and is back in the ISR.",
            (
                Join("apart"),
                log_end(FAR, 3),
                isr_is(LEADER, NEAR, FAR),
                *(() if _reckons(plan) else (Answered(),)),
                *(it for node in (LEADER, *FOLLOWERS) for it in _at(node, end=3, mark=3)),
            ),
            why="A follower is in sync again once its log reaches the leader's high watermark.",
            lines=_LINES,
        ),
    )


def _shrunk(plan: Plan) -> Step:
    """Tell what becomes of message3 when n3 leaves the ISR."""
    tells = "n3 has been behind for replica.lag.time.max.ms. n1 takes it out of the ISR."
    alive = "n3 is alive, and registered, but not in sync."
    if _reckons(plan):
        return Step(
            tells,
            (isr_is(LEADER, NEAR), *_at(LEADER, end=3, mark=3), Answered(), registered(FAR)),
            why=f"{alive} Those that are in sync have message3: that commits it. The high watermark"
            " is the lowest log end of the ISR, not of all replicas.",
            lines=_LINES,
        )
    return Step(
        tells,
        (isr_is(LEADER, NEAR), *_at(LEADER, end=3, mark=2), registered(FAR)),
        why=f"{alive} Those that are in sync have message3, and that should commit it: the high"
        " watermark is the lowest log end of the ISR, not of all replicas. But Kafka 2.7 and 2.8 do"
        " not reckon it anew when the ISR shrinks (KAFKA-13091, mended in 3.0): it stays 2, and the"
        " producer waits, until something else moves it.",
        lines=_LINES,
    )


def _reckons(plan: Plan) -> bool:
    return plan.version_numbers >= FIRST_THAT_RECKONS_ANEW


def _expected(_plan: Plan) -> Expected:
    return Expected(
        valid=Validity.VALID,
        read=("message1", "message2", "message3"),
        moral="A message is committed when the leader knows that all in sync have it, which takes"
        " one fetch more than having it; and followers know one response later still.",
    )


SCENARIO = Scenario(
    name="replication-steps",
    title="How a message is committed, fetch by fetch",
    about=__doc__.partition("\n\n")[2] if __doc__ else "",
    systems=("kafka:4.3.1:controllers", "kafka:2.8.2", "reference:controllers"),
    plan=_plan,
    assignment=lambda _plan: (LEADER, *FOLLOWERS),
    first=lambda plan: (CONTROLLER,) if plan.mode is Mode.ZOOKEEPER else (),
    steps=_steps,
    expected=_expected,
)
