"""Describe the changes between two steps of a scripted run, for each offset and in sentences."""

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable
from enum import StrEnum

from results.page.logs import NO_LOG, Log, Run
from results.page.scenes import DOWN, PAUSED, UP, ReplicaAt, Scene, isr_is_known

_STATES = {
    UP: "{} is up again",
    DOWN: "{} is down",
    PAUSED: "{} is paused: its process exists, but does nothing",
}
_NAMED = 4
"""If there are at most this many records, each record is named."""


class Change(StrEnum):
    """The kind of change at one offset of a replica's log since the step before."""

    SAME = "same"
    NEW = "new"
    GONE = "gone"
    REPLACED = "replaced"


def change_at(before: Log, now: Log, offset: int) -> Change:
    """Return the change at one offset between an earlier and a later state of a log."""
    old, new = before.at(offset), now.at(offset)
    if old is not None and new is not None:
        return Change.SAME if old.identity == new.identity else Change.REPLACED
    if old is None:
        return Change.SAME if new is None else Change.NEW
    # A record deleted at the log's start is not truncated.
    return Change.GONE if offset >= now.start else Change.SAME


def in_words(before: Scene | None, now: Scene) -> list[str]:
    """Return the changes since the step before, one sentence each."""
    sentences = []
    silent = {now.called(each.node) for each in now.step.nodes if each.state != UP}
    for replica in now.replicas:
        old = before.replica(replica.node) if before else None
        if old:
            sentences += _condition(old, replica, silent=silent)
    if before:
        sentences += _leadership(before, now)
    sentences += _records(before, now)
    sentences += _marks(before, now)
    sentences += _differences(before, now)
    return sentences


def log_before(replica: ReplicaAt, before: Scene | None, now: Scene) -> Log:
    """Return the log that a replica had at the step before.

    Before the first step, the log of a data partition is empty. But the metadata log of a running
    cluster is not empty then, so its contents are not reported as new.
    """
    if before is None:
        return replica.log if now.step.logs else NO_LOG
    old = before.replica(replica.node)
    return old.log if old else NO_LOG


def truncated(before: Log | None, now: Log) -> list[str]:
    """Return the names of the records that a log contained before and no longer contains."""
    return [
        name
        for first, last, change in _stretches(before or NO_LOG, now)
        if change in {Change.GONE, Change.REPLACED}
        for name in names_between(before or NO_LOG, first, last)
    ]


def listed(words: Iterable[str]) -> str:
    """Join words as `A`, `A and B`, or `A, B and C`."""
    *first, last = list(words) or ["nothing"]
    return f"{', '.join(first)} and {last}" if first else last


def names_between(log: Log, first: int, last: int) -> list[str]:
    """Return the names of the records in a range of offsets; for a long range, only its offsets."""
    names: list[str] = []
    for run in log.runs:
        low, high = max(first, run.first), min(last, run.last)
        if low <= high:
            names += _names(run, low, high)
    return names if len(names) <= _NAMED else [_offsets(first, last)]


def _names(run: Run, first: int, last: int) -> list[str]:
    if not run.name:
        return [_offsets(first, last)]
    if run.number is None:
        several = f" (offsets {first} to {last})" if first < last else ""
        return [f"{run.name}{several}"]
    if last - first < _NAMED:
        return [run.name_at(offset) for offset in range(first, last + 1)]
    return [f"{run.name_at(first)} … {run.name_at(last)}"]


def _offsets(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def _name(run: Run, offset: int) -> str:
    return run.name_at(offset) or f"a record of epoch {run.epoch}"


def _condition(old: ReplicaAt, new: ReplicaAt, *, silent: Collection[str]) -> list[str]:
    # A healed link is not reported while the node at its other end is silent.
    sentences = []
    if old.state != new.state and new.state in _STATES:
        sentences.append(_STATES[new.state].format(new.called))
    if lost := [each for each in new.deaf_to if each not in old.deaf_to]:
        sentences.append(f"{new.called} no longer receives packets from {listed(lost)}")
    if back := [each for each in old.deaf_to if each not in {*new.deaf_to, *silent}]:
        sentences.append(f"{new.called} receives packets from {listed(back)} again")
    if new.role and old.role != new.role and new.state == UP:
        sentences.append(f"{new.called} is now {new.role}")
    return sentences


def _leadership(before: Scene, now: Scene) -> list[str]:
    sentences = []
    was, is_now = before.step, now.step
    epoch = "" if is_now.leader_epoch is None else f", in epoch {is_now.leader_epoch}"
    if was.leader != is_now.leader:
        led = f" now leads{epoch}" if is_now.leader is not None else " leads"
        sentences.append(f"{now.broker(is_now.leader)}{led}")
    elif was.leader_epoch != is_now.leader_epoch and is_now.leader is not None and epoch:
        sentences.append(f"{now.broker(is_now.leader)} continues to lead{epoch}")
    if set(was.isr) != set(is_now.isr) and isr_is_known(was) and isr_is_known(is_now):
        isr = listed(now.broker(each) for each in is_now.isr) if is_now.isr else "empty"
        sentences.append(f"the ISR is now {isr}")
    return sentences


def _records(before: Scene | None, now: Scene) -> list[str]:
    new: dict[str, list[str]] = defaultdict(list)
    gone: dict[str, list[str]] = defaultdict(list)
    lost: dict[str, list[str]] = defaultdict(list)
    for replica in now.replicas:
        was = log_before(replica, before, now)
        for first, last, change in _stretches(was, replica.log):
            if change in {Change.GONE, Change.REPLACED}:
                where = lost if replica.state == DOWN else gone
                where[listed(names_between(was, first, last))].append(replica.called)
            if change in {Change.NEW, Change.REPLACED}:
                new[listed(names_between(replica.log, first, last))].append(replica.called)
    return [
        *(f"{listed(who)} truncated {what}" for what, who in gone.items()),
        *(f"the disk of {listed(who)} has lost {what}" for what, who in lost.items()),
        *(f"{what}: new on {listed(who)}" for what, who in new.items()),
    ]


def _stretches(old: Log, new: Log) -> list[tuple[int, int, Change]]:
    """Return (first, last, change) for each range of offsets with the same kind of change."""
    edges = sorted(old.edges | new.edges)
    stretches: list[tuple[int, int, Change]] = []
    for first, behind in itertools.pairwise(edges):
        change = change_at(old, new, first)
        if stretches and stretches[-1][2:] == (change,):
            stretches[-1] = (stretches[-1][0], behind - 1, change)
        else:
            stretches.append((first, behind - 1, change))
    return stretches


def _marks(before: Scene | None, now: Scene) -> list[str]:
    moved: dict[str, list[str]] = defaultdict(list)
    for replica in now.replicas:
        old = before.replica(replica.node) if before else None
        if old is None or None in (old.high_watermark, replica.high_watermark):
            continue
        if old.high_watermark != replica.high_watermark:
            moved[f"from {old.high_watermark} to {replica.high_watermark}"].append(replica.called)
    return [f"the high watermark of {listed(who)} changed {how}" for how, who in moved.items()]


def _differences(before: Scene | None, now: Scene) -> list[str]:
    edges = sorted({edge for each in now.replicas for edge in each.log.edges})
    for first in edges:
        if now.differing(first) and not (before and before.differing(first)):
            held = [
                f"{replica.called} holds {_name(run, first)}"
                for replica in now.replicas
                if (run := replica.log.at(first))
            ]
            return [f"at offset {first} {listed(held)}"]
    return []
