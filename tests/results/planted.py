"""Stored runs with planted failures, made by hand: what an index, a site and its readers need.

Only the small files; `samples` are copied where a page needs a whole record.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from results.nights import write_night
from results.record.milestones import Milestone, append_milestone
from results.record.night import Night, Why
from results.record.paths import RunPaths
from results.record.plan import dump_plan, plan_from
from results.record.terms import AnomalyClass, Validity
from results.record.verdict import AnomalySummary, Evidence, Example, Verdict
from results.samples import find_sample
from results.verdict_json import write_verdict
from tests.results.told import told

SECOND = 1_000_000_000
LOSS = (
    "value 4294967298, acknowledged at offset 121 of log-0-1 at 22.300 s by op 4711 (leader as"
    " observed then: broker 1, epoch 4), is in no replica's log"
)


def anomaly(
    count: int = 3,
    *,
    of: AnomalyClass = AnomalyClass.SAFETY,
    sentence: str = LOSS,
    topic: str = "log-0",
    evidence: Evidence | None = None,
    allowed: bool = False,
) -> AnomalySummary:
    safety = of is AnomalyClass.SAFETY
    told: Evidence = evidence or ({"value": 4294967298} if safety else {})
    shown = Example(
        sentence=sentence, evidence=told, topic=topic,
        topic_id="", partition=1, offset=121 if safety else -1, allowed=allowed, trusted=True,
        why="allowed (acks-0-1): with acks=1 nobody waits for a follower" if allowed else "",
    )  # fmt: skip
    return AnomalySummary(
        anomaly_class=of, count=count, allowed=count if allowed else 0, trusted=count,
        examples=(shown,),
    )  # fmt: skip


def plant(
    store: Path,
    stamp: str,
    *,
    plan: dict[str, object] | None = None,
    anomalies: dict[str, AnomalySummary] | None = None,
    because: Sequence[str] = (),
    night: Night | None = None,
    judged: bool = True,
    milestones: Sequence[str] = (
        "started", "ready", "warmup", "main", "main-ended", "healed", "recovered", "final-reads",
        "noted", "stopped", "collected",
    ),
) -> RunPaths:  # fmt: skip
    """Write a run as `STORE/<name>/<stamp>-<seed>`."""
    whole = plan_from(
        {"seed": 7, "nemesis": "kill,partition", "hosts": "namespace", **(plan or {})}
    )
    paths = RunPaths(store / whole.name / f"{stamp}-{whole.seed}")
    paths.root.mkdir(parents=True)
    paths.plan.write_text(dump_plan(whole), encoding="utf-8")
    for number, name in enumerate(milestones):
        append_milestone(paths.milestones, Milestone(name=name, at_ns=number * 5 * SECOND))
    if night is not None:
        write_night(paths.night, night)
    if judged:
        write_verdict(paths, judgement(paths, anomalies or {}, because))
    return paths


def judgement(
    paths: RunPaths, anomalies: dict[str, AnomalySummary], because: Sequence[str] = ()
) -> Verdict:
    """Return a verdict with figures, as bad as what was found."""
    counting = [each for each in anomalies.values() if each.count > each.allowed]
    bad = any(each.anomaly_class is not AnomalyClass.HARNESS for each in counting)
    doubtful = Validity.UNKNOWN if because or counting else Validity.VALID
    return told(
        Verdict(
            run_id=paths.run_id,
            valid=Validity.INVALID if bad else doubtful,
            judge="contract",
            engine="local",
            anomalies=anomalies,
            unknown_because=tuple(because),
            guarantees=("acks=all: a write is acknowledged once all in-sync replicas have it.",),
            checked={"lost-write": 4000, "not-enough-traffic": 8, "unseen": None},
            stats={
                "ops": {"send": {"ok": 3000, "info": 40}, "poll": {"ok": 6000}},
                "phases_s": {"warmup": 5.0, "main": 55.0},
                "faults": {
                    "kill": {"scheduled": 3, "confirmed": 3, "healed": 3},
                    "isolate": {"scheduled": 2, "confirmed": 1, "healed": 1},
                    "halves": {"scheduled": 1, "confirmed": 0, "healed": 0},
                },
                "latency_ms": {"send": {"p50": 4.0, "p99": 40.0, "max": 900.0}},
            },
        )
    )


def planted_sample(store: Path, sample: str, stamp: str, *, night: Night | None = None) -> RunPaths:
    """Copy a sample into a store as a run of that time."""
    source = find_sample(sample)
    paths = RunPaths(store / sample / f"{stamp}-1")
    paths.root.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, paths.root, copy_function=shutil.copyfile)
    if night is not None:
        write_night(paths.night, night)
    return paths


def night_of(night: str, entry: str, *, why: Why = Why.PLANNED, repeats: str = "") -> Night:
    """Return a place in a night of the suite `nightly`."""
    return Night(suite="nightly", night=night, entry=entry, why=why, repeats=repeats)


LATE = (
    "no send to log-0-1 succeeded from 71.204 s to 104.020 s, although 4 processes tried 31 sends"
    " in 30 seconds of this time, mostly with _MSG_TIMED_OUT; the budget is 30 s from the last"
    " heal, at 71.204 s"
)
LEADERLESS = (
    "nobody led log-0-1 from 52.500 s to 66.000 s, 13.5 s: brokers n2 and n3 named no leader; the"
    " budget is 10 s from the last heal, at 52.500 s"
)
LEADERLESS_EVIDENCE: Evidence = {
    "from_ns": 52_500_000_000, "to_ns": 66_000_000_000, "believed": ["n2: nobody", "n3: nobody"],
    "budget_s": 10.0, "calm_from_ns": 52_500_000_000,
}  # fmt: skip
NIGHTS = ("20261120T010000Z", "20261121T010000Z", "20261122T010000Z")


def planted_nights(store: Path) -> None:
    """Fill a store with three nights of the same broken build, and what is new in the last one.

    In each night one entry loses writes, flakily: two of its three runs do. In the last one there
    are new: a loss with acks=1, a story by the high watermark, and a cluster that does not recover.
    """
    for number, night in enumerate(NIGHTS):
        _plant_night(store, number, night)
    last = NIGHTS[-1]
    planted_sample(store, "loss-acks-1", "20261122T013000Z", night=night_of(last, "log/acks-1"))
    planted_sample(
        store, "leader-epoch-1-high-watermark", "20261122T014000Z", night=night_of(last, "story")
    )
    late = anomaly(1, of=AnomalyClass.LIVENESS, sentence=LATE)
    plant(
        store, "20261122T015000Z", plan={"workload": "groups", "nemesis": "pause", "seed": 31},
        anomalies={"unavailable": late}, night=night_of(last, "groups/4.3.1/pause"),
    )  # fmt: skip
    plant(
        store, "20261122T015500Z", plan={"system": "kafka:3.9.1:zookeeper", "seed": 32},
        because=["not-enough-traffic: 12 ok sends in the main phase, 100 are needed"],
        night=night_of(last, "log/3.9.1/kill+partition"),
    )  # fmt: skip
    planted_sample(store, "valid", "20261121T190000Z")


def _plant_night(store: Path, number: int, night: str) -> None:
    day, build = night[:9], {"system": "kafka:4.2.0", "nemesis": "kill,partition"}
    entry = "log/4.2.0/kill+partition"
    lost = {"lost-write": anomaly(10 + number), "offset-order": anomaly(3)}
    first = plant(
        store, f"{day}011000Z", plan={**build, "seed": 100 + number}, anomalies=lost,
        night=night_of(night, entry),
    )  # fmt: skip
    for again, why in ((1, Why.SAME_SEED), (2, Why.FRESH_SEED)):
        seed = 100 + number if why is Why.SAME_SEED else 200 + number
        plant(
            store, f"{day}011{again}00Z", plan={**build, "seed": seed},
            anomalies=lost if again == 1 else {},
            night=night_of(night, entry, why=why, repeats=first.run_id),
        )  # fmt: skip
    for minute, system in enumerate(("kafka:3.9.1:zookeeper", "kafka:4.2.0", "kafka:4.3.1")):
        for place, workload in enumerate(("log", "txn", "groups")):
            plant(
                store, f"{day}01{20 + 3 * minute + place}00Z",
                plan={"system": system, "workload": workload, "nemesis": "pause", "seed": 5},
                night=night_of(night, f"{workload}/{system}/pause"),
            )  # fmt: skip
