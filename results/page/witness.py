"""List the events of the main anomaly: its sends, acknowledgements, truncations, reads, and so on.

The main anomaly is the example that shows the failure best. The code calls it the witness. Each
event is a row of the record, or follows from two rows. Nothing is guessed. The time of a truncation
comes from the broker's log if the broker used this machine's clock and no fault shifted this clock.
If the time of an event is unknown, the text of the event says so.
"""

import bisect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from results.page.bystanders import bystanders
from results.page.case import Case, Reign, Row
from results.page.cuts import LATE_S, LOSING, begun_s, cuts_of
from results.page.cuts import Told as Dropped
from results.page.holdings import Holding
from results.page.truncations import Logged
from results.record.clock import NS_PER_S, seconds
from results.record.verdict import Evidence
from results.wording.faults import FaultLine
from results.wording.plural import many

MAX_EVENTS = 40
_MAX_SENDS = 6
_MAX_REIGNS = 10
_MAX_FAULTS = 10
_BACKOFF_NS = 100_000_000
"""The time that a client waits before it retries a request (retry.backoff.ms)."""
_BEFORE_S, _AFTER_S = 2.0, 3.0
"""The seconds shown before and after the main anomaly's own events."""
_NEAR_S = 30.0
"""Reads and observations that are more than this many seconds away from the other events are
listed, but the time axis does not include them."""
_ANNOUNCED = ("announced", "earlier", "later")
_MOMENTS = (
    ("calm_from_ns", "the harness", "healed the last fault"),
    ("from_ns", "the partition", "had no broker that could serve it, from this time on"),
    ("to_ns", "the partition", "was served again, or was no longer asked for"),
    ("asked_from_ns", "a new producer", "asked for its producer id in vain, from this time on"),
    ("asked_to_ns", "the last of them", "had still not got one"),
    ("full_ns", "the ISR", "was full again"),
    ("since_ns", "the last stable offset", "stayed the same from this time until the end"),
)


class Kind(StrEnum):
    """The kind of an event.

    Events with equal or unknown times are listed in the order of these kinds.
    """

    FAULT = "fault"
    SENT = "sent"
    ACKED = "acknowledged"
    HELD = "held"
    LED = "led"
    TOLD = "told"
    CUT = "cut"
    OTHER_CUT = "other-cut"
    READ = "read"
    END = "end"


_ORDER = {kind: number for number, kind in enumerate(Kind)}
_PROOF = frozenset({Kind.SENT, Kind.ACKED, Kind.CUT})
"""Kinds of events that show why a record was lost. A shortened list keeps them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of the main anomaly.

    Attributes:
        at_s: Seconds since the run's start; None if unknown.
        kind: Kind of the event.
        who: The client, broker or reader.
        what: The action or observation of `who`.
        sort_s: The second by which the event is sorted if `at_s` is None.
        cut: Offset of a truncation; None if unknown, or for other events.
        seen: Whether `at_s` is the time of an observation, so that the event may be earlier.
        about_s: Precision, in seconds, of a time from a broker's clock; 0 for other times.
    """

    at_s: float | None
    kind: Kind
    who: str
    what: str
    sort_s: float = float("inf")
    cut: int | None = None
    seen: bool = False
    about_s: float = 0.0

    @property
    def when(self) -> str:
        """The time as text: `17.490 s`, `before 17.490 s`, `17.490 s ± 0.01 s`; may be empty."""
        if self.at_s is None:
            return ""
        told = seconds(self.at_s * NS_PER_S)
        if self.seen:
            return f"before {told}"
        return f"{told} ± {self.about_s:.2g} s" if self.about_s else told


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The events around the main anomaly, in order.

    Attributes:
        events: The events, in order.
        more: Number of events that were left out.
        window: (from, to) in seconds of the run.
        aside: Faults within `window` that the explanation does not need, in order.
        aside_because: Why the explanation does not need these faults; empty if there are none.
    """

    events: tuple[Event, ...]
    more: int
    window: tuple[float, float]
    aside: tuple[Event, ...] = ()
    aside_because: str = ""


def witness_story(
    case: Case,
    faults: Sequence[FaultLine],
    *,
    end_s: float,
    cuts: Logged | None = None,
    about_s: float = 0.0,
) -> Told | None:
    """Return the events of the main anomaly, or None if the record has no event with a time.

    Args:
        case: The record's facts about the main anomaly.
        faults: The run's faults.
        end_s: End of the run, in seconds.
        cuts: Truncations in brokers' own logs, as `broker_logs.cuts_logged` returns them.
        about_s: Precision in seconds of the times in these logs.
    """
    dropped = list(cuts_of(case, faults, cuts or {}))
    told = (_sends(case), _holds(case, faults), _cuts(case, dropped, about_s), _reads(case))
    own = [*chain.from_iterable(told), *_evidence(case)]
    if not any(each.at_s is not None for each in own):
        return None
    low, high = _window(own, end_s)
    near = _near(faults, low, high)
    rest = bystanders(case, near, dropped)
    part = [each for each in near if each not in rest.faults]
    around = [*_leads(case, low, high), *_faults(part, low)]
    events = sorted([*own, *around], key=_place)
    ends = list(_ends(case))
    kept = _kept(events, MAX_EVENTS - len(ends))
    return Told(
        events=(*kept, *ends),
        more=len(events) - len(kept),
        window=(low, high),
        aside=tuple(sorted(_faults(rest.faults, low), key=_place)),
        aside_because=rest.because,
    )


def _place(event: Event) -> tuple[float, int]:
    return (event.sort_s if event.at_s is None else event.at_s), _ORDER[event.kind]


def _kept(events: Sequence[Event], room: int) -> list[Event]:
    """Shorten the list of events: drop leaders and faults first, keep sends and truncations."""
    if len(events) <= room:
        return list(events)
    own = [each for each in events if each.kind not in {Kind.FAULT, Kind.LED}]
    proof = _ends_of([each for each in own if each.kind in _PROOF], room)
    rest = _ends_of([each for each in own if each.kind not in _PROOF], room - len(proof))
    return sorted([*proof, *rest], key=_place)


def _ends_of(events: Sequence[Event], room: int) -> list[Event]:
    """Return the first and the last events, up to `room` in total."""
    left_out = max(0, len(events) - room)
    first = (len(events) - left_out) // 2
    return [*events[:first], *events[first + left_out :]]


def _window(own: Sequence[Event], end_s: float) -> tuple[float, float]:
    timed = [(each.at_s, each.kind) for each in own if each.at_s is not None]
    # Late reads and observations also show the anomaly, but its cause is much earlier.
    seen = {Kind.READ, Kind.HELD}
    core = [at_s for at_s, kind in timed if kind not in seen] or [min(timed)[0]]
    low, high = min(core), max(core)
    near = [at_s for at_s, _ in timed if low - _NEAR_S <= at_s <= high + _NEAR_S]
    low, high = min(near), max(near)
    return max(0.0, low - _BEFORE_S), max(min(high + _AFTER_S, max(end_s, high)), low + 1.0)


def _s(time_ns: int) -> float:
    return time_ns / NS_PER_S


def _sends(case: Case) -> Iterator[Event]:
    for row in _first(case.sends, case, _MAX_SENDS):
        who = _client(row)
        where = f"value {row['value']}"
        if row["invoke_ns"] is not None:
            sent = f"sent {where} (op {row['op_id']}, acks={row['acks']})"
            yield Event(at_s=_s(row["invoke_ns"]), kind=Kind.SENT, who=who, what=sent)
        if row["complete_ns"] is not None:
            yield Event(
                at_s=_s(row["complete_ns"]), kind=Kind.ACKED, who=_teller(case, row),
                what=_answer(row, where),
            )  # fmt: skip
    if case.offset < 0 and (rest := case.sends[_MAX_SENDS:]):
        begun = [row["invoke_ns"] for row in rest if row["invoke_ns"] is not None]
        tried = (
            f"tried {many(len(rest), 'more send')} until {seconds(max(begun, default=0))} without"
            " success"
        )
        at_s = _s(min(begun)) if begun else None
        yield Event(at_s=at_s, kind=Kind.SENT, who="clients", what=tried)


def _client(row: Row) -> str:
    """Return the client's name, `client p15`, to match op names such as `p15#498`."""
    return f"client p{row['process']}"


def _first(rows: Sequence[Row], case: Case, most: int) -> list[Row]:
    """Return up to `most` rows; the rows of the main anomaly's messages come first."""
    mine = [row for row in rows if row["value"] in case.values]
    rest = [row for row in rows if row["value"] not in case.values]
    return [*mine, *rest][:most]


def _teller(case: Case, row: Row) -> str:
    """Return the broker that acknowledged a send, or the client if no broker acknowledged it."""
    if not row["acked"]:
        return _client(row)
    evidence = case.example.evidence
    if row["value"] == evidence.get("value") and "may_have_acknowledged" in evidence:
        leader = evidence.get("leader_then")
        return f"n{leader}" if isinstance(leader, int) else _either(evidence)
    reign = reign_at(case.reigns, row["complete_ns"])
    return f"n{reign.leader}" if reign and _answered(case, row, reign) else "the leader"


def _answered(case: Case, row: Row, reign: Reign) -> bool:
    """Return whether only this leader can have acknowledged a send.

    A leader that is cut off may continue while another broker leads. Only the leader epoch in a
    copy of the record shows which of the two brokers acknowledged it. The send must also have been
    too short for a request to each of the two brokers. And the send must end well before the
    observed end of the leadership, because elections are observed late. If no copy exists, for
    example after a truncation, only a partition's first leader can be named.
    """
    copies = [each for each in case.polls if each["value"] == row["value"]]
    epochs = {each["leader_epoch"] for each in copies if each["offset"] == row["offset"]}
    if row["offset"] == case.offset:
        held = case.held.values()
        epochs |= {each.epoch for each in held if each.value == row["value"]}
    sent_ns = row["complete_ns"] if row["invoke_ns"] is None else row["invoke_ns"]
    until_ns = reign.to_ns - round(LATE_S * NS_PER_S)
    return (
        reign.leader >= 0
        and (epochs == {reign.epoch} or (not epochs and _led_first(case, reign)))
        and reign.from_ns <= sent_ns <= row["complete_ns"] <= until_ns
        and row["complete_ns"] - sent_ns < _BACKOFF_NS
    )


def _led_first(case: Case, reign: Reign) -> bool:
    """Return whether this broker was the partition's only leader until its leadership ended."""
    earlier = {each.leader for each in case.reigns if each.from_ns <= reign.from_ns}
    return reign.epoch == 0 and earlier == {reign.leader}


def _either(evidence: Evidence) -> str:
    """Return all brokers that may have acknowledged the anomaly's message: `n2 or n3`."""
    told = evidence.get("may_have_acknowledged")
    names = [str(each).partition(",")[0] for each in told] if isinstance(told, list) else []
    return " or ".join(dict.fromkeys(names)) or "the leader"


def _answer(row: Row, where: str) -> str:
    if row["acked"]:
        return f"acknowledged {where} at offset {row['offset']} to {_client(row)}"
    if row["outcome"] == "ok":
        return f"completed the send of {where} (without an answer, because acks={row['acks']})"
    error = f": {row['error']}" if row["error"] else ""
    if row["outcome"] == "fail":
        return f"certainly failed to send {where}{error}"
    return f"got no certain answer about {where}{error}"


def reign_at(reigns: Sequence[Reign], time_ns: int) -> Reign | None:
    """Return the observed leader at a time, or None before the first observation."""
    at = bisect.bisect_right([each.from_ns for each in reigns], time_ns) - 1
    return reigns[at] if at >= 0 else None


def _holds(case: Case, faults: Sequence[FaultLine]) -> Iterator[Event]:
    """Yield an event for each log: the first observation of the log beyond the anomaly's offset.

    If a log was never observed beyond the offset, the event says so. If a log was never truncated
    at the offset, the record that it holds there in the end was there since that observation.
    """
    taken = any(each.kind in LOSING for each in faults)
    cut = {row["node"] for row in case.truncations if row["from_offset"] <= case.offset}
    if case.offset < 0:
        return
    begun_ns = begun_s(case) * NS_PER_S
    for node, seen in case.looks.items():
        looks = [each for each in seen if each.at_ns >= begun_ns]
        beyond = next((each for each in looks if each.end > case.offset), None)
        if beyond:
            held = case.held.get(node)
            later = [each.end for each in looks if each.at_ns >= beyond.at_ns]
            kept = node not in cut and not taken and min(later) > case.offset
            known = held is not None and held.value is not None and kept
            what = f"value {held.value}" if held is not None and known else "a record"
            reached = f"had {what} at {case.offset}: its observed log end offset was {beyond.end}"
            yield Event(at_s=_s(beyond.at_ns), kind=Kind.HELD, who=node, what=reached)
        elif looks:
            never = f"was never observed with offset {case.offset} during the run"
            last = looks[-1]
            if last.end <= case.offset:
                yield Event(at_s=None, kind=Kind.HELD, who=node, what=never, sort_s=_s(last.at_ns))


def _cuts(case: Case, dropped: Iterable[Dropped], about_s: float) -> Iterator[Event]:
    """Yield truncations; a truncation without a time comes after the sends and the next leader."""
    begun = [_s(row["invoke_ns"]) for row in case.sends if row["invoke_ns"] is not None]
    later = max(_after_first_reign(case), *begun, 0.0)
    for each in dropped:
        kind = Kind.OTHER_CUT if each.another else Kind.CUT
        yield Event(
            at_s=each.at_s, kind=kind, who=each.node, what=each.what, sort_s=later, cut=each.cut,
            seen=not each.logged, about_s=about_s if each.logged else 0.0,
        )  # fmt: skip


def _after_first_reign(case: Case) -> float:
    """Return the time of the first leader change after the anomaly's message was acknowledged."""
    acked = [row for row in case.sends if row["acked"] and row["complete_ns"]]
    own = [row for row in acked if row["value"] in case.values[:1]] or acked
    begun = min((row["complete_ns"] for row in own), default=0)
    epochs = [each for each in case.reigns if each.from_ns > begun and each.leader >= 0]
    first = reign_at(case.reigns, begun)
    changed = [each for each in epochs if first is None or each.epoch != first.epoch]
    return _s(changed[0].from_ns) + 1e-3 if changed else float("inf")


def _reads(case: Case) -> Iterator[Event]:
    """Yield an event for each value and offset: the client that read first, and the read count."""
    by: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in case.polls:
        if row["complete_ns"] is not None:
            by[row["offset"], row["value"]].append(row)
    for (offset, value), rows in by.items():
        first, last = rows[0], rows[-1]
        more = (
            ""
            if len(rows) == 1
            else f"; {len(rows)} reads in all, the last at {seconds(last['complete_ns'])}"
        )
        what = f"read value {value} at offset {offset} (op {first['op_id']}){more}"
        who = _client(first)
        yield Event(at_s=_s(first["complete_ns"]), kind=Kind.READ, who=who, what=what)


def _evidence(case: Case) -> Iterator[Event]:
    evidence = case.example.evidence
    for word in _ANNOUNCED:
        by, mark = evidence.get(f"{word}_by"), evidence.get(f"{word}_high_watermark")
        at_ns = evidence.get(f"{word}_observed_ns")
        if isinstance(by, int) and isinstance(mark, int) and isinstance(at_ns, int):
            what = f"announced the high watermark {mark} of epoch {evidence.get(f'{word}_epoch')}"
            yield Event(at_s=_s(at_ns), kind=Kind.TOLD, who=f"n{by}", what=what)
    for key, who, what in _MOMENTS:
        if isinstance(at_ns := evidence.get(key), int):
            yield Event(at_s=_s(at_ns), kind=Kind.TOLD, who=who, what=what)
    yield from _ended(evidence)
    yield from _positions(evidence)
    yield from _budget(evidence)


def _ended(evidence: Evidence) -> Iterator[Event]:
    """Yield events for the unexpected end of a broker, and for its last log lines."""
    node, how, seen_ns, said = (evidence.get(key) for key in ("node", "how", "seen_ns", "said"))
    if not (isinstance(node, str) and isinstance(seen_ns, int) and isinstance(said, list)):
        return
    for line in said:
        yield Event(at_s=None, kind=Kind.HELD, who=node, what=f"said: {line}", sort_s=_s(seen_ns))
    found = f"{how}: observed at this time; it may have happened earlier"
    yield Event(at_s=_s(seen_ns), kind=Kind.TOLD, who=node, what=found)


def _positions(evidence: Evidence) -> Iterator[Event]:
    """Yield events for the last acknowledged offset commit, and for the offset fetched later."""
    group, told = evidence.get("group"), evidence.get("offset")
    if not isinstance(group, str):
        return
    words = {
        "acknowledged_ns": f"acknowledged a commit of {group} (op {evidence.get('last_op_id')}):"
        f" the committed offset is at least {evidence.get('least')}",
        "told_ns": f"answered client p{evidence.get('process')} (op {evidence.get('op_id')}) that"
        f" the committed offset of {group} is {'none' if told is None else told}",
    }
    for key, what in words.items():
        if isinstance(at_ns := evidence.get(key), int):
            yield Event(at_s=_s(at_ns), kind=Kind.TOLD, who="the coordinator", what=what)


def isr_words(isr: object) -> str:
    """Return an ISR as text: `n1, n2`."""
    return ", ".join(f"n{each}" for each in isr) or "empty" if isinstance(isr, list) else "unknown"


def _budget(evidence: Evidence) -> Iterator[Event]:
    calm_ns, budget_s = evidence.get("calm_from_ns"), evidence.get("budget_s")
    since_ns = evidence.get("since_ns", evidence.get("seen_ns"))  # Old verdicts lack since_ns.
    if "isr" in evidence and isinstance(since_ns, int):
        isr = f"was {isr_words(evidence.get('isr'))} from this time on"
        yield Event(at_s=_s(since_ns), kind=Kind.TOLD, who="the ISR", what=isr)
    if isinstance(calm_ns, int) and isinstance(budget_s, int | float):
        over = f"of {budget_s:g} s from that time ended"
        yield Event(at_s=_s(calm_ns) + budget_s, kind=Kind.TOLD, who="the budget", what=over)


def _leads(case: Case, low: float, high: float) -> Iterator[Event]:
    inside = [each for each in case.reigns if low <= _s(each.from_ns) <= high]
    for each in inside[:_MAX_REIGNS]:
        epoch = "" if each.epoch is None else f" in leader epoch {each.epoch}"
        who = f"n{each.leader}" if each.leader >= 0 else "no broker"
        yield Event(at_s=_s(each.from_ns), kind=Kind.LED, who=who, what=f"leads{epoch}")


def _near(faults: Iterable[FaultLine], low: float, high: float) -> list[FaultLine]:
    return [
        each
        for each in faults
        if each.begun and each.requested_s <= high
        and (each.healed_s is None or each.healed_s >= low)
    ]  # fmt: skip


def _faults(near: Sequence[FaultLine], low: float) -> Iterator[Event]:
    for each in near[:_MAX_FAULTS]:
        who = f"fault {each.fault_id}"
        of = f"{each.kind} of {each.nodes}"
        saw = f"; {each.waited}" if each.waited else ""
        if each.confirmed_s is not None and low <= each.requested_s < each.confirmed_s:
            asked, saw = f"{of} was requested{_no_packets(each)}{saw}", ""
            yield Event(at_s=each.requested_s, kind=Kind.FAULT, who=who, what=asked)
        begun = "" if each.confirmed_s is not None else " began, but its effect was never observed"
        held = f"{of}{begun}: {each.effect}{saw}"
        yield Event(at_s=from_s(each), kind=Kind.FAULT, who=who, what=held)
        if each.healed_s is not None:
            # A broker acts again before its return is confirmed, so its actions may come after this
            # event.
            seen = "was confirmed as healed"
            if each.healing_s is not None:
                seen = (
                    f"is undone from this time on and {seen} at {seconds(each.healed_s * NS_PER_S)}"
                )
            yield Event(at_s=each.over_s, kind=Kind.FAULT, who=who, what=f"{of} {seen}")


def _no_packets(fault: FaultLine) -> str:
    """Return, as text, the nodes between which a network fault stops all packets."""
    between = "between " if "|" in fault.parted else ""
    return f": no packets {between}{fault.parted}" if fault.parted else ""


def from_s(fault: FaultLine) -> float:
    """Return the earliest second at which a fault may have had an effect."""
    return fault.requested_s if fault.confirmed_s is None else fault.confirmed_s


def _ends(case: Case) -> Iterator[Event]:
    """Yield what the logs hold at the offset in the end, and the value that no reader got."""
    alike: dict[Holding, list[str]] = defaultdict(list)
    for node, holding in case.held.items():
        alike[holding].append(node)
    for holding, nodes in alike.items():
        verb = "holds" if len(nodes) == 1 else "hold"
        what = f"{verb} {holding.told}" if holding.told else "may hold anything"
        what = ": ".join(
            filter(None, (f"{what} at offset {case.offset} at the end of the run", holding.note))
        )
        yield Event(at_s=None, kind=Kind.END, who=", ".join(nodes), what=what)
    read = {row["value"] for row in case.polls}
    for value in case.values[:1]:
        if value not in read:
            yield Event(at_s=None, kind=Kind.END, who="no reader", what=f"ever got value {value}")
