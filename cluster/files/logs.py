"""This module finds leader changes and truncations in a broker's own log files.

The lines are in log4j's format, `[time] LEVEL text (class)`. The module reads three kinds of lines:

- Truncations, in `server.log`. The replica fetcher logs the reason; the log (class `UnifiedLog`,
  before 3.0 `Log`) logs the truncation. Up to 2.8, Kafka logs all reasons except one: the leader's
  response about the end of an epoch. So a follower's truncation without a logged reason gets this
  reason. A truncation at the log's end changes nothing. Kafka logs "has no effect" for such a
  truncation, and this module skips the line. Log lines do not report where the log ended before the
  truncation.
- `Leader ... starts at leader epoch ...` and `Follower ...`, in `state-change.log` since 2.4. For
  older versions, this module reads the logged LeaderAndIsr requests instead. These requests also
  name the leader. A follower's line may not contain the leader. The broker logs such a request
  twice: when the request arrives (level TRACE), and when it is done.
- Truncations of the controllers' quorum, which `quorum_log` parses.

The time in a line is from the broker's wall clock, which a fault may change. The time is for
display, never for ordering. The patterns match real brokers of 0.11.0.3, 1.1.1, 2.3.1, 2.6.3,
2.8.2, 3.9.1 and 4.3.1.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from cluster.files.checkpoints import uuid_text
from cluster.files.metadata import METADATA_TOPIC
from cluster.files.quorum_log import quorum_truncation

_LINE = re.compile(r"^\[(?P<wall_clock>[^\]]+)\] [A-Z]+ (?P<text>.*)$")
_EVENTS = re.compile(
    r"runcat|Corruption found|starts at leader epoch|eset |become-|eceived LeaderAndIsr"
    r"|Added fetcher"
)

_FETCHER = r"\[ReplicaFetcher(?:Thread-\d+-| replicaId=\d+, leaderId=)(?P<leader>\d+).*?\]:?"
_REASONS = (
    re.compile(
        _FETCHER + r" Truncating partition (?P<name>\S+) with"
        r" TruncationState\(offset=(?P<offset>\d+),.*?\) due to (?P<why>.*?)(?: \(kafka\.\S+\))?$"
    ),
    re.compile(
        _FETCHER + r" Truncating partition (?P<name>\S+) to"
        r" (?P<why>local high watermark (?P<offset>\d+))"
    ),
)
_BY_HIGH_WATERMARK = re.compile(
    _FETCHER + r" Based on \w+'s leader epoch, leader replied with an unknown offset in"
    r" (?P<name>\S+)\. (?:High watermark|The initial fetch offset) (?P<offset>\d+) will be used"
)
"""A truncation to the high watermark, before 2.0.

A new follower's initial fetch offset is its high watermark.
"""
_BEYOND = re.compile(
    _FETCHER + r".*?partition (?P<name>\S+) (?:reset its fetch offset )?from \d+"
    r" to current leader(?: \d+)?'s latest offset (?P<offset>\d+)"
)
_FETCHES = re.compile(
    r"\[(?P<old>[^,\[\]\s]+), initOffset \d+ to broker BrokerEndPoint\((?P<old_leader>\d+),"
    r"|(?P<name>[^\s,(]+) -> \w*\([^()]*BrokerEndPoint\(id=(?P<leader>\d+),"
)
"""`Added fetcher` lines of Kafka 2.0 and 2.8: a partition, and the leader that the broker now
follows."""
_FETCHER_ADDED = re.compile(
    r"Added fetcher to broker (?:BrokerEndPoint\(id=)?(?P<leader>\d+).*? for partitions "
)
_ITS_PARTITIONS = re.compile(r"(?P<name>[^\s,(]+) -> \(offset=")
"""In `Added fetcher` lines of 2.1 to 2.6: the partitions.

In these versions the leader appears once, before all partitions.
"""
_NO_EFFECT = re.compile(r"(?:partition=|Truncating )(?P<name>[^,\s]+).*? to (?P<offset>\d+) has no")
_EPOCH_END = re.compile(
    r"EpochEndOffset[({].*leaderEpoch=(?P<epoch>-?\d+), endOffset=(?P<end>-?\d+)"
)
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
    r"(?: with topic id (?:None|Some\((?P<topic_id>[\w-]{22})\)))?"
    r" starts at leader epoch (?P<epoch>\d+) .*?ISR \[?(?P<isr>[\d, ]*)"
)
_FOLLOWER = re.compile(
    r"\[Broker id=\d+\] Follower (?P<name>\S+)"
    r"(?: with topic id (?:None|Some\((?P<topic_id>[\w-]{22})\)))?"
    r" starts at leader epoch (?P<epoch>\d+)(?: .*?Current leader is (?P<leader>-?\d+))?"
)
_REQUEST = re.compile(
    r"eceived LeaderAndIsr request \w*PartitionState\((?:topicName='(?P<topic>[^']+)',"
    r" partitionIndex=(?P<partition>\d+), )?.*?leader=(?P<leader>-?\d+),"
    r" leaderEpoch=(?P<epoch>\d+), isr=(?:\[(?P<listed>[\d, ]*)\]|(?P<isr>[\d,]*)), "
    r".*?(?:for partition \[?(?P<name>[^\]\s]+))?\]?(?: \(state\.change\.logger\))?$"
)
_DONE = re.compile(
    r"[cC]ompleted LeaderAndIsr request .*? for the become-(?P<role>leader|follower) transition"
    r" for partition (?P<name>\S+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTruncation:
    """A logged truncation of a broker's replica.

    Attributes:
        wall_clock: The time of the line, by the broker's clock, as text.
        topic: The topic's name.
        partition: The partition's number.
        from_offset: The first removed offset, which is the new end of the log.
        reason: The reason in words; an empty string if no line contains a reason.
    """

    wall_clock: str
    topic: str
    partition: int
    from_offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedLeadership:
    """A logged event: a broker became leader of a partition, or began to follow the leader.

    Attributes:
        wall_clock: The time of the line, by the broker's clock, as text.
        topic: The topic's name.
        topic_id: A UUID of 36 characters, or None if the line has no topic id.
        partition: The partition's number.
        leader: The leader's broker id; -1 without a leader; None if no line names the leader.
        leader_epoch: The leader epoch of this event.
        isr: The ISR that the new leader takes over; None in a follower's line.
    """

    wall_clock: str
    topic: str
    topic_id: str | None
    partition: int
    leader: int | None
    leader_epoch: int
    isr: tuple[int, ...] | None


def log_events(lines: Iterable[str]) -> Iterator[LoggedTruncation | LoggedLeadership]:
    """Yield the truncations and leader changes in the lines of a broker's log, in order."""
    truncations, leaderships = _Truncations(), _Leaderships()
    for wall_clock, text in _lines(lines):
        yield from truncations.told(text, wall_clock)
        yield from leaderships.told(text, wall_clock)
    yield from truncations.left()


def _lines(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for raw in lines:
        line = _LINE.match(raw.rstrip("\n")) if _EVENTS.search(raw) else None
        if line is not None:
            yield line["wall_clock"], line["text"]


class _Truncations:
    """Combines each truncation with the log line that states the reason.

    The reason of a broker's truncation is logged before the truncation. The reason of a truncation
    of the quorum's log is logged after the truncation.
    """

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, str], str] = {}
        self._leaders: dict[str, str] = {}
        self._waiting: LoggedTruncation | None = None

    def told(self, text: str, wall_clock: str) -> Iterator[LoggedTruncation]:
        """Yield the truncations that are complete after this line."""
        waiting, why = self._waiting, quorum_truncation(text)
        if waiting is not None and why is not None and why.offset == waiting.from_offset:
            reason = (
                f"follower of controller {why.leader}: the quorum's logs differ from that offset on"
            )
            self._waiting = replace(waiting, reason=reason)
        yield from self.left()
        self._reasons |= _reason(text)
        if "Added fetcher" in text:
            self._leaders |= _followed(text)
        if nothing := _NO_EFFECT.search(text):
            self._reasons.pop((nothing["name"], nothing["offset"]), None)
        event = self._truncation(text, wall_clock)
        if event is not None and event.topic == METADATA_TOPIC:
            self._waiting = event
        elif event is not None:
            yield event

    def _truncation(self, text: str, wall_clock: str) -> LoggedTruncation | None:
        event = _truncation(text, wall_clock, self._reasons)
        leader = event and self._leaders.get(f"{event.topic}-{event.partition}")
        if event is None or event.reason or leader is None:
            return event
        why = f"follower of broker {leader}: an epoch ends at offset {event.from_offset} there"
        return replace(event, reason=why)

    def left(self) -> Iterator[LoggedTruncation]:
        """Yield the quorum log's truncation whose reason is still missing, if there is one."""
        if self._waiting is not None:
            yield self._waiting
        self._waiting = None


class _Leaderships:
    """Combines each LeaderAndIsr request with the leader change that the broker logs after it."""

    def __init__(self) -> None:
        self._requests: dict[tuple[str, int], LoggedLeadership] = {}
        self._last: dict[tuple[str, int], tuple[int | None, int]] = {}

    def told(self, text: str, wall_clock: str) -> Iterator[LoggedLeadership]:
        """Yield the leader change that is complete after this line, if there is one."""
        request = _request(text, wall_clock)
        if request is not None:
            self._requests[request.topic, request.partition] = request
            return
        event = self._done(text, wall_clock) or self._begun(text, wall_clock)
        if event is None:
            return
        place, state = (event.topic, event.partition), (event.leader, event.leader_epoch)
        if self._last.get(place) != state or not _DONE.search(text):
            yield event
        self._last[place] = state

    def _begun(self, text: str, wall_clock: str) -> LoggedLeadership | None:
        event = _leadership(text, wall_clock)
        if event is None or event.leader is not None:
            return event
        asked = self._requests.get((event.topic, event.partition))
        same = asked is not None and asked.leader_epoch == event.leader_epoch
        return replace(event, leader=asked.leader) if asked is not None and same else event

    def _done(self, text: str, wall_clock: str) -> LoggedLeadership | None:
        done = _DONE.search(text)
        place = _place(done["name"]) if done else None
        asked = self._requests.get(place) if place else None
        if done is None or asked is None:
            return None
        isr = asked.isr if done["role"] == "leader" else None
        return replace(asked, wall_clock=wall_clock, isr=isr)


def _followed(text: str) -> dict[str, str]:
    """Return the new leader of each partition in an `Added fetcher` line.

    Returns:
        The broker id of the leader, for each partition name such as `topic-0`.
    """
    followed = {
        told["old"] or told["name"]: told["old_leader"] or told["leader"]
        for told in _FETCHES.finditer(text)
    }
    if added := _FETCHER_ADDED.search(text):
        followed |= {told["name"]: added["leader"] for told in _ITS_PARTITIONS.finditer(text)}
    return followed


def _reason(text: str) -> dict[tuple[str, str], str]:
    """Return the reason in a line for a later truncation, by partition name and offset."""
    if below := _BELOW.search(text):
        why = f"below its high watermark {below['high_watermark']}"
        return {(below["name"], below["offset"]): why}
    if told := _BY_HIGH_WATERMARK.search(text):
        return _followers_reason(told, f"local high watermark {told['offset']}")
    if told := _BEYOND.search(text):
        return _followers_reason(told, f"the leader's log ends at offset {told['offset']}")
    told = next(filter(None, (pattern.search(text) for pattern in _REASONS)), None)
    if told is None:
        return {}
    end = _EPOCH_END.search(told["why"])
    why = f"epoch {end['epoch']} ends at offset {end['end']} there" if end else told["why"]
    return _followers_reason(told, why)


def _followers_reason(told: re.Match[str], why: str) -> dict[tuple[str, str], str]:
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


def _request(text: str, wall_clock: str) -> LoggedLeadership | None:
    told = _REQUEST.search(text)
    if told is None:
        return None
    # 0.11 writes [t,0], 1.x t-0; later versions write topic and partition as fields.
    name = told["name"].replace(",", "-") if told["name"] else ""
    place = (told["topic"], int(told["partition"])) if told["topic"] else _place(name)
    if place is None:
        return None
    return LoggedLeadership(
        wall_clock=wall_clock,
        topic=place[0],
        topic_id=None,
        partition=place[1],
        leader=int(told["leader"]),
        leader_epoch=int(told["epoch"]),
        isr=_brokers(told["listed"] or told["isr"] or ""),
    )


def _leadership(text: str, wall_clock: str) -> LoggedLeadership | None:
    told = _LEADER.search(text) or _FOLLOWER.search(text)
    place = told and _place(told["name"])
    if not told or not place:
        return None
    isr, leader = told.groupdict().get("isr"), told["leader"]
    return LoggedLeadership(
        wall_clock=wall_clock,
        topic=place[0],
        topic_id=told["topic_id"] and uuid_text(told["topic_id"]),
        partition=place[1],
        leader=None if leader is None else int(leader),
        leader_epoch=int(told["epoch"]),
        isr=None if isr is None else _brokers(isr),
    )


def _brokers(listed: str) -> tuple[int, ...]:
    return tuple(int(broker) for broker in listed.split(",") if broker.strip())


def _place(name: str) -> tuple[str, int] | None:
    """Return the topic and the partition in a name such as `topic-0`; None for other names."""
    topic, dash, number = name.rpartition("-")
    return (topic, int(number)) if dash and number.isdecimal() else None
