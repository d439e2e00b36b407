"""What a broker's own logs tell: who it believes leads, and what it cut off its replicas.

Two kinds of lines count, as log4j writes them (`[time] LEVEL text (class)`):

- truncations, in `server.log`: the replica fetcher gives the reason, the log itself (`UnifiedLog`,
  `Log` in older versions) the deed. A truncation "that has no effect" is none.
- `Leader … starts at leader epoch …` and `Follower …` in `state-change.log`.

Lines carry the broker's wall clock, which may be faked: good for showing, never for order. Wordings
are those of Kafka 4.3; the older ones are from the sources of 0.11 to 3.x.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cluster.files.checkpoints import uuid_text

_LINE = re.compile(r"^\[(?P<wall_clock>[^\]]+)\] [A-Z]+ (?P<text>.*)$")
_INTERESTING = re.compile(r"runcat|Corruption found|starts at leader epoch")

_REASON = re.compile(
    r"\[ReplicaFetcher replicaId=\d+, leaderId=(?P<leader>\d+).*\]"
    r" Truncating partition (?P<name>\S+) with TruncationState\(offset=(?P<offset>\d+),.*?\)"
    r" due to (?P<why>.*?)(?: \(kafka\.\S+\))?$"
)
_EPOCH_END = re.compile(r"EpochEndOffset\(.*leaderEpoch=(?P<epoch>-?\d+), endOffset=(?P<end>-?\d+)")
_BELOW = re.compile(
    r"Truncating (?:future )?(?P<name>\S+) to offset (?P<offset>\d+)"
    r" below high watermark (?P<high_watermark>\d+)"
)
_DEEDS = (
    re.compile(
        r"\[(?:Unified)?Log partition=(?P<name>[^,\s]+).*?\] Truncating to offset (?P<offset>\d+)"
    ),
    re.compile(r"^Truncating log (?P<name>\S+) to offset (?P<offset>\d+)\."),  # Before 2.0.
    re.compile(
        r"\[(?:Unified)?Log partition=(?P<name>[^,\s]+).*?\]"
        r" (?P<why>Truncate and start at offset) (?P<offset>\d+)"
    ),
    re.compile(
        r"\[Log(?:Loader)? partition=(?P<name>[^,\s]+).*?\]"
        r" (?P<why>Corruption found in segment \d+), truncating to offset (?P<offset>\d+)"
    ),
)
_LEADER = re.compile(
    r"\[Broker id=(?P<leader>\d+)\] Leader (?P<name>\S+)"
    r"(?: with topic id Some\((?P<topic_id>[\w-]{22})\))?"
    r" starts at leader epoch (?P<epoch>\d+) .*?ISR \[?(?P<isr>[\d,]*)"
)
_FOLLOWER = re.compile(
    r"\[Broker id=\d+\] Follower (?P<name>\S+)"
    r"(?: with topic id Some\((?P<topic_id>[\w-]{22})\))?"
    r" starts at leader epoch (?P<epoch>\d+) .*?Current leader is (?P<leader>-?\d+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTruncation:
    """A broker cut its replica of a partition.

    Attributes:
        wall_clock: When, by the broker's clock, as it stands in the line.
        topic: The topic's name.
        partition: Its number.
        from_offset: The first offset that was dropped, which is the new end of the log.
        reason: Why, in words; empty if no line tells.
    """

    wall_clock: str
    topic: str
    partition: int
    from_offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedLeadership:
    """A broker began to lead a partition, or to follow its leader.

    Attributes:
        wall_clock: When, by the broker's clock, as it stands in the line.
        topic: The topic's name.
        topic_id: A UUID's 36 characters, None if the line has none.
        partition: Its number.
        leader: A broker's id: its own if it leads; -1 without a leader.
        leader_epoch: The epoch that it acts in.
        isr: As the new leader takes them over; None in a follower's line.
    """

    wall_clock: str
    topic: str
    topic_id: str | None
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...] | None


def log_events(lines: Iterable[str]) -> Iterator[LoggedTruncation | LoggedLeadership]:
    """Find the truncations and changes of leadership in the lines of a broker's log, in order."""
    reasons: dict[tuple[str, str], str] = {}
    for raw in lines:
        if not _INTERESTING.search(raw):
            continue
        line = _LINE.match(raw.rstrip("\n"))
        if line is None:
            continue
        wall_clock, text = line["wall_clock"], line["text"]
        reasons |= _reason(text)
        event = _truncation(text, wall_clock, reasons) or _leadership(text, wall_clock)
        if event is not None:
            yield event


def _reason(text: str) -> dict[tuple[str, str], str]:
    """Return why a partition is about to be cut at an offset, by (partition's name, offset)."""
    if below := _BELOW.search(text):
        why = f"below its high watermark {below['high_watermark']}"
        return {(below["name"], below["offset"]): why}
    told = _REASON.search(text)
    if told is None:
        return {}
    end = _EPOCH_END.search(told["why"])
    why = f"epoch {end['epoch']} ends at offset {end['end']} there" if end else told["why"]
    return {(told["name"], told["offset"]): f"follower of broker {told['leader']}: {why}"}


def _truncation(
    text: str, wall_clock: str, reasons: dict[tuple[str, str], str]
) -> LoggedTruncation | None:
    for pattern in _DEEDS:
        deed = pattern.search(text)
        place = deed and _place(deed["name"])
        if deed and place:
            known = deed.groupdict().get("why")
            return LoggedTruncation(
                wall_clock=wall_clock,
                topic=place[0],
                partition=place[1],
                from_offset=int(deed["offset"]),
                reason=known or reasons.pop((deed["name"], deed["offset"]), ""),
            )
    return None


def _leadership(text: str, wall_clock: str) -> LoggedLeadership | None:
    told = _LEADER.search(text) or _FOLLOWER.search(text)
    place = told and _place(told["name"])
    if not told or not place:
        return None
    isr = told.groupdict().get("isr")
    return LoggedLeadership(
        wall_clock=wall_clock,
        topic=place[0],
        topic_id=told["topic_id"] and uuid_text(told["topic_id"]),
        partition=place[1],
        leader=int(told["leader"]),
        leader_epoch=int(told["epoch"]),
        isr=None if isr is None else tuple(int(broker) for broker in isr.split(",") if broker),
    )


def _place(name: str) -> tuple[str, int] | None:
    """Return topic and partition of `topic-0`, None if it is no such name."""
    topic, dash, number = name.rpartition("-")
    return (topic, int(number)) if dash and number.isdecimal() else None
