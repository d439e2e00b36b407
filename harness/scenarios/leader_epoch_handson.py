"""How the lines of `leader-epoch-checkpoint` change when a leader stops and returns.

Every partition's folder has this file. When a replica becomes leader, it writes the new epoch and
the offset at which that epoch starts. Followers copy these lines when they fetch the epoch's
records. When a follower asks where an epoch ends, the leader answers from these lines (KIP-101).
"""

from harness.scenarios.actions import AskEpochEnd, Produce, Start, Stop
from harness.scenarios.conditions import (
    epochs_on_disk,
    high_watermark,
    isr_is,
    leads,
    log_end_on_disk,
)
from harness.scenarios.protocol import Expected, Scenario, Step
from harness.scenarios.settings import STEADY_LEADERS
from results.record.plan import Plan
from results.record.plan_parts import ScenarioPlan
from results.record.terms import Mode, Validity

LEADER, FOLLOWER, BYSTANDER = "n3", "n1", "n2"
"""The nodes of the brokers in the article: the partition is on brokers 3 and 1; 3 leads."""


def _plan(_choices: ScenarioPlan, system: str) -> dict[str, object]:
    return {
        "system": system,
        "nodes": 3,
        "replication": 2,
        "min_insync": 1,
        "broker": STEADY_LEADERS,
    }


def _first(plan: Plan) -> tuple[str, ...]:
    # This broker becomes the controller, so broker 3 is not the controller when it is stopped.
    return (BYSTANDER,) if plan.mode is Mode.ZOOKEEPER else ()


def _steps(_plan: Plan) -> tuple[Step, ...]:
    return (
        Step(
            "peter-test01 is created on brokers 3 (n3) and 1 (n1). Broker 3 leads it, in epoch 0.",
            (
                leads(LEADER, epoch=0),
                epochs_on_disk(LEADER, (0, 0)),
                epochs_on_disk(FOLLOWER),
            ),
            why="Broker 3's file has the lines 0, 1, 0 0. The first line is the version of the"
            " format. The second line is the number of entries that follow. Do not take it for the"
            " current epoch. Each further line is an entry: the epoch, and the offset at which it"
            " starts. Epochs count from 0. Broker 1 has no entry yet, because a follower learns of"
            " an epoch from the first record of this epoch.",
        ),
        Step(
            "message1 is written to broker 3, and broker 1 fetches it.",
            (
                Produce(),
                log_end_on_disk(LEADER, 1),
                log_end_on_disk(FOLLOWER, 1),
                high_watermark(FOLLOWER, 1),
                epochs_on_disk(LEADER, (0, 0)),
                epochs_on_disk(FOLLOWER, (0, 0)),
            ),
            why="Broker 3's file has not changed: an entry says only where an epoch starts. Broker"
            " 1 took its entry from the record, which carries its epoch.",
        ),
        Step(
            "Broker 3 is stopped. Broker 1, which is also in sync, becomes the leader.",
            (
                Stop(LEADER),
                leads(FOLLOWER, epoch=1),
                isr_is(FOLLOWER),
                epochs_on_disk(FOLLOWER, (0, 0), (1, 1)),
                epochs_on_disk(LEADER, (0, 0)),
            ),
            why="Broker 1's file has the lines 0, 2, 0 0, 1 1. It has two entries, and epoch 1"
            " starts at offset 1. That was the end of broker 1's log when it became leader. So"
            " epoch 0 ends at 1. No record was written in epoch 1 yet. Broker 3, which is down,"
            " does not know epoch 1.",
        ),
        Step(
            "message2 is written to broker 1.",
            (
                Produce(only_to=FOLLOWER),
                log_end_on_disk(FOLLOWER, 2),
                epochs_on_disk(FOLLOWER, (0, 0), (1, 1)),
                AskEpochEnd(node=FOLLOWER, epoch=0),
                AskEpochEnd(node=FOLLOWER, epoch=1),
            ),
            why="message2 is at offset 1, in epoch 1. If a follower asks where epoch 0 ends,"
            " broker 1 answers with the start of the next epoch, 1. The current epoch ends where"
            " the log ends, at 2.",
        ),
        Step(
            "Broker 3 returns, and follows broker 1.",
            (
                Start(LEADER),
                isr_is(FOLLOWER, LEADER),
                leads(FOLLOWER, epoch=1),
                log_end_on_disk(LEADER, 2),
                epochs_on_disk(LEADER, (0, 0), (1, 1)),
                epochs_on_disk(FOLLOWER, (0, 0), (1, 1)),
            ),
            why="Broker 3's last entry is epoch 0. It asked broker 1 where that epoch ends. The"
            " answer was 1, where its own log ends, so it had nothing to truncate. When it fetched"
            " message2, it also wrote the entry 1 1. Both files are equal now.",
        ),
    )


def _expected(_plan: Plan) -> Expected:
    return Expected(
        valid=Validity.VALID,
        read=("message1", "message2"),
        moral="The file is a short history of leadership. It has the offset at which each leader's"
        " records begin. With it, a replica that was away finds out which part of its log is still"
        " valid.",
    )


SCENARIO = Scenario(
    name="leader-epoch-handson",
    title="leader-epoch-checkpoint, line by line",
    about=__doc__.partition("\n\n")[2] if __doc__ else "",
    systems=("kafka:2.8.2", "kafka:4.3.1", "reference:controllers"),
    plan=_plan,
    assignment=lambda _plan: (LEADER, FOLLOWER),
    first=_first,
    steps=_steps,
    expected=_expected,
)
