"""Compute the figures in a verdict from the statistics of a run."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from checkers.columns import codes, ints, runs_of
from checkers.facts import RunFacts
from results.record.clock import NS_PER_S
from results.record.milestones import INTERRUPTED, MAIN_ENDED, STOPPED_ON, WATCHER_ENDED
from results.record.terms import Outcome
from results.record.verdict import UNCOVERED


def figures(
    facts: RunFacts, statistics: Mapping[str, pa.Table], uncovered: Sequence[str] = ()
) -> dict[str, object]:
    """Return the `stats` object of `verdict.json`.

    Args:
        facts: The run's context.
        statistics: Every table of `STATISTICS` by name.
        uncovered: The places whose coverage is unknown, with the reasons.
    """
    return {
        **_ops(statistics["totals"]),
        **_faults(statistics["faults"]),
        **_rate(facts, statistics["offered"]),
        "phases_s": _phases(facts),
        "unavailable_s": _longest_unavailable_s(statistics["availability"]),
        "elections": _elections(statistics["leaders"]),
        **_stopped(facts),
        **_machine(facts),
        **({UNCOVERED: list(uncovered)} if uncovered else {}),
    }


def _stopped(facts: RunFacts) -> dict[str, object]:
    """Return why and when the run was ended early: by a violation or by a user.

    If the live watcher ended before the run, the result has the end of its watch instead of the
    violation.
    """
    told: dict[str, object] = {}
    if (cut := facts.milestone(INTERRUPTED)) is not None:
        told["interrupted_at_s"] = round(cut.at_ns / NS_PER_S, 1)
    stopped, blind = facts.milestone(STOPPED_ON), facts.milestone(WATCHER_ENDED)
    if blind is not None:
        return {**told, "watched_until_s": round(blind.at_ns / NS_PER_S, 1)}
    if stopped is None:
        return told
    at_s = round(stopped.at_ns / NS_PER_S, 1)
    words = {key: stopped.detail.get(key, "") for key in ("anomaly", "place")}
    return {**told, "stopped_on_violation": {"at_s": at_s, **words}}


def _machine(facts: RunFacts) -> dict[str, object]:
    """Return the machine's load average when the main phase ended, and its number of cores."""
    ended = facts.milestone(MAIN_ENDED)
    if ended is None or not {"load", "cores"} <= ended.detail.keys():
        return {}
    return {"load": float(ended.detail["load"]), "cores": int(ended.detail["cores"])}


def _ops(totals: pa.Table) -> dict[str, object]:
    ops: defaultdict[str, dict[str, int]] = defaultdict(dict)
    messages: Counter[str] = Counter()
    latency: dict[str, object] = {}
    for row in totals.to_pylist():
        f = row["f"] or "?"
        ops[f][row["outcome"]] = row["count"]
        messages[f] += row["messages"] or 0
        if row["outcome"] == Outcome.OK.value:
            latency[f] = {key: row[f"{key}_ms"] for key in ("p50", "p99", "max")}
    return {"ops": dict(ops), "messages": dict(messages), "latency_ms": latency}


def _faults(faults: pa.Table) -> dict[str, object]:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in faults.to_pylist():
        kind = counts[row["kind"] or "?"]
        kind["scheduled"] += 1
        kind["confirmed"] += row["confirmed_ns"] is not None
        kind["healed"] += row["healed_ns"] is not None
    return {"faults": {kind: dict(counts[kind]) for kind in sorted(counts)}}


def _rate(facts: RunFacts, offered: pa.Table) -> dict[str, object]:
    rows = offered.to_pylist()
    total = {name: sum(row[name] for row in rows) for name in offered.column_names}
    calm = total["calm_offered"]
    begun = round(100 * (calm - total["calm_missed"]) / calm, 2) if calm else None
    return {
        "rate": {
            "planned_per_s": facts.plan.rate,
            "offered": total["offered"],
            "missed": total["missed"],
            "held_outside_of_faults_percent": begun,
        }
    }


def _phases(facts: RunFacts) -> dict[str, float]:
    """Return the seconds from each milestone to the next.

    The key is the earlier milestone's name.
    """
    stones = facts.played
    return {
        one.name: round((other.at_ns - one.at_ns) / NS_PER_S, 3) for one, other in pairwise(stones)
    }


def _longest_unavailable_s(availability: pa.Table) -> dict[str, int]:
    """Return, for each partition, the longest series of seconds in which no send ended ok.

    Only seconds with an open send count. A second without an open send does not end a series.

    Args:
        availability: Rows by topic, partition and time.
    """
    topics, names = codes(availability, "topic")
    partitions, ok = ints(availability, "partition"), ints(availability, "ok") > 0
    longest: dict[str, int] = {}
    for start, end in pairwise(runs_of(topics, partitions).tolist()):
        served = np.flatnonzero(ok[start:end])
        gaps = np.diff(served, prepend=-1, append=end - start) - 1
        longest[f"{names[topics[start]]}-{partitions[start]}"] = int(gaps.max())
    return longest


def _elections(leaders: pa.Table) -> int:
    """Return how often a change of a partition's leader or leader epoch was observed."""
    led = [row for row in leaders.to_pylist() if row["leader"] >= 0]
    places = {(row["topic"], row["topic_id"], row["partition"]) for row in led}
    return len(led) - len(places)
