"""How a message is committed: each replica's log end and high watermark, fetch by fetch.

Followers fetch from their leader. A fetch at offset n means: "I have everything below n". So the
leader learns only with the next fetch that a follower has a record. The leader's high watermark is
the lowest log end of the replicas in sync. Followers learn this value with the next response. See
https://kafka.apache.org/documentation/#replication

The scenario makes these moments last longer, so that they can be observed. It delays the followers'
requests on their way to the leader, but not the leader's responses. A fetch waits up to eight
seconds at the leader.
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
"""The first version after KAFKA-13091 was fixed. In this bug, a leader of version 2.7 or 2.8 does
not raise the high watermark when the ISR shrinks."""
LEADER, NEAR, FAR, CONTROLLER = "n1", "n2", "n3", "n4"
FOLLOWERS = (NEAR, FAR)
_LINES = r"(Shrinking|Expanding) ISR|ISR updated to|out of sync replicas"

_FETCHES = {
    # How long a fetch waits at the leader for new records. During that time, the follower's high
    # watermark lags behind. (2.4.0 to 2.5.0 would answer at once: KAFKA-9731.)
    "replica.fetch.wait.max.ms": "8000",
    # A follower that has been behind for this time leaves the ISR.
    "replica.lag.time.max.ms": "12000",
    # Longer than the wait. If the response is cut off, the follower waits for this time. From 3.x
    # on, the second setting counts.
    "replica.socket.timeout.ms": "10000",
    "request.timeout.ms": "10000",
}


def _plan(_choices: ScenarioPlan, system: str) -> dict[str, object]:
    # The controller must hear the leader while other brokers do not, so it is a separate node.
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
            why="A fetch at offset 1 commits offset 0: it means that the follower has everything"
            " below 1. Once n1 has this fetch from both followers, its high watermark is 1, and it"
            " answers the producer. n2 and n3 learn this with the response to that fetch. The"
            " response waits at n1 for new records, so their own high watermarks are still 0.",
        ),
        Step(
            "Slowly now: message2 is sent while no request of n2 and n3 reaches n1.",
            (
                Cut("requests", tuple((node, LEADER) for node in FOLLOWERS)),
                Produce(wait=False),
                *_at(LEADER, end=2, mark=1),
                *(it for node in FOLLOWERS for it in _at(node, end=2, mark=1)),
            ),
            why="n1 has appended message2 at offset 1, and answered the waiting fetches. So n2 and"
            " n3 have message2, too, and the high watermark of that moment, 1. But n1 does not"
            " know yet that they have it. Three machines have message2, but it is not committed:"
            " no reader can read it, and its producer has no answer.",
        ),
        Step(
            "The next requests of n2 and n3 arrive: fetches at offset 2.",
            (
                Join("requests"),
                *_at(LEADER, end=2, mark=2),
                Answered(),
                *(it for node in FOLLOWERS for it in _at(node, end=2, mark=1)),
            ),
            why="These fetches commit offset 1. n1's high watermark is 2, and the producer has its"
            " answer. A follower's own high watermark is always one response behind. By this high"
            " watermark alone, the follower could not know that message2 is committed (see"
            " leader-epoch-1).",
        ),
        Step(
            "The fetches at offset 2 have waited long enough. n1 answers them without a record.",
            tuple(it for node in (LEADER, *FOLLOWERS) for it in _at(node, end=2, mark=2)),
            why="An empty response also carries the leader's high watermark. Now all high"
            " watermarks are 2.",
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
            why="n2 fetches message3, but n3 cannot. n3 still counts as in sync. So n1 waits for"
            " n3, and the producer waits for n1.",
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
            why="A follower is in sync again when its log end is at least the leader's high"
            " watermark.",
            lines=_LINES,
        ),
    )


def _shrunk(plan: Plan) -> Step:
    """Return the step in which n3 leaves the ISR. In some versions, this step commits message3."""
    tells = "n3 has been behind for replica.lag.time.max.ms. n1 removes it from the ISR."
    alive = "n3 is alive, and registered, but not in sync."
    if _reckons(plan):
        return Step(
            tells,
            (isr_is(LEADER, NEAR), *_at(LEADER, end=3, mark=3), Answered(), registered(FAR)),
            why=f"{alive} All replicas in sync have message3, so it is committed. The high"
            " watermark is the lowest log end of the ISR, not of all replicas.",
            lines=_LINES,
        )
    return Step(
        tells,
        (isr_is(LEADER, NEAR), *_at(LEADER, end=3, mark=2), registered(FAR)),
        why=f"{alive} Each replica of the ISR has message3, so message3 should be committed. The"
        " high watermark is the lowest log end of the ISR. But Kafka 2.7 and 2.8 do not"
        " compute it again when the ISR shrinks (KAFKA-13091, fixed in 3.0). So the high"
        " watermark stays 2, and the producer waits until another event raises it.",
        lines=_LINES,
    )


def _reckons(plan: Plan) -> bool:
    return plan.version_numbers >= FIRST_THAT_RECKONS_ANEW


def _expected(_plan: Plan) -> Expected:
    return Expected(
        valid=Validity.VALID,
        read=("message1", "message2", "message3"),
        moral="A message is committed when the leader knows that all replicas in sync have it. The"
        " leader learns this with the next fetch of each follower. Followers learn it one response"
        " later.",
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
