"""Explain why a committed record is missing on one replica, or differs from the other copies."""

from collections.abc import Iterable, Mapping
from itertools import pairwise

from checkers.acknowledger import LOOK_NS, Acked, cut_at, looks_at
from checkers.columns import NONE, Ints
from checkers.disk_losses import excuses_of_disk
from checkers.facts import FINAL
from checkers.findings import seconds
from checkers.group import Group, ReplicaLog
from checkers.protocol import Excuse, Proved
from checkers.replica_reasons import (
    cut_text,
    fate,
    last_beyond,
    later_cuts,
    leader_of,
    leader_text,
    named_ns,
    sides,
    told_ns,
    verb,
)
from checkers.witnesses import truncations_of
from results.record.verdict import Anomaly


def compared_logs(group: Group, found: Anomaly) -> tuple[Mapping[str, ReplicaLog], int]:
    """Return the compared logs and the first offset at which they differ."""
    return group.logs.get(str(found.evidence.get("snapshot")), {}), found.offset


def cut_short(group: Group, logs: Iterable[ReplicaLog], offsets: Ints) -> tuple[str, ...]:
    """Return the disk excuses for a replica whose log ends before all offsets that differ.

    If its broker did not run again after a power loss, the high watermark in its file is too high.
    A broker that stopped cleanly has written this file again. A wipe deletes this file.
    """
    first, last = int(offsets[0]), int(offsets[-1])
    short = {log.node for log in logs if log.read_end <= first} - group.facts.clean_nodes
    found = set[str]()
    for node in short:
        seen = last_beyond(group, node, first)
        found |= {*excuses_of_disk(group, node, (first, last), since_ns=seen[0] if seen else NONE)}
    # The last copies are about other replicas.
    return tuple(sorted(found - {Excuse.WIPE.value, Excuse.LAST_COPIES.value}))


def why_it_lacks(group: Group, found: Anomaly, node: str) -> str:
    """Return how a replica may have lost or skipped a record that another replica has."""
    logs, first = compared_logs(group, found)
    having = [side for side in sides(logs, first) if not side.lacks]
    others = [other for side in having for other in side.nodes]
    if len(having) != 1 or not others:
        return (
            f"{node} has no record at this offset; the run's record does not show whether"
            f" {node} lost or skipped it"
        )
    alone = [each for side in sides(logs, first) if side.lacks for each in side.nodes] == [node]
    who = f"only {node} lacks it, and {verb(others, 'holds', 'hold')} it"
    who = who if alone else f"{verb(others, 'holds', 'hold')} it"
    at_the_end = found.evidence.get("snapshot") == FINAL
    if at_the_end and (befell := fate(group, node, first)):
        return f"{who}; {befell}"
    if leader_of(group, having[0].epoch) == node:
        return (
            f"{who}: {node}, leader of the record's epoch {having[0].epoch}, lost the record"
            " after its replication"
        )
    any_time = Acked(value=NONE, offset=first, sent_ns=NONE, acked_ns=NONE)
    if (start := cut_at(group, any_time, node)) is not None:
        return (
            f"{who}; {_lost_from(group, node, start, first)}, and its later fetches did not"
            " bring the record back"
        )
    if not at_the_end:
        return f"{who}; the run's record does not show whether {node} lost or skipped the record"
    passed = [each for each in pairwise(looks_at(group, node)) if each[0][1] <= first < each[1][1]]
    when = f" between {seconds(passed[0][0][0])} and {seconds(passed[0][1][0])}" if passed else ""
    return (
        f"{who}; {node} recorded no truncation, and its log continues after this offset: it"
        f" skipped the record when it copied that part of the log{when}, or lost the record later"
    )


def _lost_from(group: Group, node: str, start: int, offset: int) -> str:
    """Return a clause on what may have removed the end of a log, which later grew again."""
    cuts = [each for each in truncations_of(group, offset) if each.node == node]
    by_disk = any(
        node in each.nodes
        and each.concerns(group.topic, group.partition)
        and each.first_taken <= offset
        for each in group.facts.disk_losses
    )
    if cuts and by_disk:
        return (
            f"{node}'s log may once have lost all records from offset {start} on (by a truncation"
            " or a disk fault)"
        )
    if cuts:
        return cut_text(min(cuts, key=lambda each: each.from_offset))
    return f"a fault of {node}'s disk may once have removed all records from offset {start} on"


def why_it_kept(group: Group, found: Anomaly, epochs: Mapping[str, int]) -> str:
    """Return why a replica kept a record of an older epoch.

    `Proved` means that rows show the reason.
    """
    logs, first = compared_logs(group, found)
    stale, fresh = sorted(epochs, key=lambda node: epochs[node])
    newer = [node for side in sides(logs, first) if side.epoch == epochs[fresh]
             for node in side.nodes]  # fmt: skip
    held = (
        f"{verb(newer or [fresh], 'holds', 'hold')} the record that"
        f" {leader_text(group, epochs[fresh])}"
    )
    held = f"{held} wrote there"
    if found.evidence.get("snapshot") != FINAL:
        return Proved(f"{held}; {stale} still had the older record of epoch {epochs[stale]} then")
    own_ns = named_ns(group, stale, epochs[fresh])
    short = [at for at, end in looks_at(group, stale) if end <= first and at - LOOK_NS >= own_ns]
    if short:
        return Proved(
            f"{held}; {stale} knew of that epoch by {seconds(own_ns)}, and its log end offset was"
            f" at most {first} at {seconds(short[0])}, but it holds the older record of epoch"
            f" {epochs[stale]}: the record came back, or never left the disk"
        )
    told = told_ns(group, epochs[fresh])
    looks = looks_at(group, stale)
    again = [each for each in looks if each[1] <= first and each[0] - LOOK_NS >= told]
    if again:
        at_ns, end = again[0]
        return Proved(
            f"{held}; {stale}'s log end offset was {end} at {seconds(at_ns)}, after that epoch"
            f" had been reported, but its log holds a record of epoch {epochs[stale]} at offset"
            f" {first}: the record was written later, or came back"
        )
    if starts := sorted({each.from_offset for each in later_cuts(group, stale, first)}):
        return Proved(
            f"{held}; {stale} recorded a truncation of its log from offset"
            f" {' or '.join(map(str, starts))} on, but still holds the older record of epoch"
            f" {epochs[stale]}"
        )
    kept = f"{held}; {stale} kept the older record of epoch {epochs[stale]}"
    behind = logs[stale].epochs[logs[stale].offsets > first]
    newer_epochs = behind[behind >= epochs[fresh]]
    if not len(newer_epochs):
        return f"{kept}, and the run's record does not show that it followed that leader"
    return Proved(
        f"{kept}, recorded no truncation, and holds records of epoch {newer_epochs[0]} after it"
    )
