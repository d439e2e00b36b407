"""Sentences about the measured effects of faults, and about the evidence that faults ended.

Effects are the JSON of the `faults` table (`nemesis/effects.py`). If an effect contains a sentence
(`told`), this sentence is shown. Otherwise, a function for the kind of effect makes the sentence.
If the kind is unknown, the JSON is shown as it was recorded.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

from results.wording.links import parted
from results.wording.plural import many

Json = Mapping[str, Any]
_NOT_CONFIRMED = "not confirmed"


def json_object(value: object) -> Json:
    """Return a JSON object, given as text or as a dictionary; empty for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def effect_sentence(text: str | None, *, confirmed: bool) -> str:
    """Return a sentence about the measured effect of a fault.

    Args:
        text: The column `effect`.
        confirmed: Whether the fault was confirmed.
    """
    effect = json_object(text)
    if not effect:
        return text or ("confirmed" if confirmed else _NOT_CONFIRMED)
    if "without_effect" in effect:
        return f"{_NOT_CONFIRMED}: {effect['without_effect']}"
    return _told(effect, _EFFECTS)


def heal_sentence(text: str | None) -> str:
    """Return a sentence about the evidence that a fault ended; "" if nothing was recorded.

    Args:
        text: The column `heal_effect`.
    """
    effect = json_object(text)
    if not effect:
        return text or ""
    if "not_healed" in effect:
        return f"not confirmed: {effect['not_healed']}"
    return _told(effect, _HEALS)


def _told(effect: Json, tellers: Mapping[str, Callable[[Json], str]]) -> str:
    if isinstance(said := effect.get("told"), str):
        return said
    teller = tellers.get(str(effect.get("kind")))
    try:
        return teller(effect) if teller else _flat(effect)
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError):
        return _flat(effect)  # The effect is from another version, or damaged.


def _objects(effect: Json, name: str) -> list[Json]:
    return [json_object(each) for each in effect.get(name) or ()]


def _cut(effect: Json) -> str:
    cut = [link for link in _objects(effect, "links") if link.get("cut")]
    silent = sum(_fell_silent(link) for link in cut)
    named = parted((str(link.get("sender")), str(link.get("receiver"))) for link in cut)
    return f"probes stopped arriving on {silent} of {len(cut)} cut links ({named})"


def _fell_silent(link: Json) -> bool:
    """Return whether a network cut is known to have stopped all packets of a link.

    Another fault may have stalled the link. Then the number of packets that the cut dropped
    decides.
    """
    known = link.get("dropped") if link.get("stalled_by_others") else link.get("before")
    return bool(known) and not link.get("during")


def _joined(effect: Json) -> str:
    links = _objects(effect, "links")
    again = sum(bool(link.get("after")) for link in links)
    dropped = sum(
        int(link.get("dropped_at_first") or 0) + int(link.get("dropped_while_held") or 0)
        for link in links
    )
    counts = f"{again} of {many(len(links), 'link')}; dropped: {many(dropped, 'packet')}"
    return f"probes arrive on {counts}"


def _flapping(effect: Json) -> str:
    named = parted((sender, receiver) for sender, receiver in effect["links"])
    return f"probes alternately stopped arriving and arrived again on {named}"


def _flapped(effect: Json) -> str:
    alive, others = len(effect["alive"]), len(effect.get("cut_by_others") or ())
    are = "is" if others == 1 else "are"
    beside = f" ({others} more {are} cut or stalled by other faults)" if others else ""
    phases = many(len(effect["phases"]), "phase")
    return f"probes arrive on {many(alive, 'link')} again, after {phases}{beside}"


def _quality(effect: Json) -> str:
    links, quality = _objects(effect, "links"), json_object(effect["quality"])
    if quality.get("stall_ms"):
        return _stalled(links, quality)
    before = [json_object(link["before"]) for link in links]
    during = [json_object(link["during"]) for link in links]
    parts = [
        f"{name} {_middle(before, measure)} → {_middle(during, measure)}{unit}"
        for key, (name, unit, measure) in _QUALITIES.items()
        if quality.get(key)
    ]
    return f"datagrams on {many(len(links), 'link')}: {'; '.join(parts)}"


def _stalled(links: list[Json], quality: Json) -> str:
    """Return a sentence about a stall: how many datagrams arrived on the link with the fewest."""
    soon = [json_object(link["midway"])["arrived"] for link in links]
    after = _number(min(link["midway_s"] for link in links))
    came = min(json_object(link["during"])["arrived"] for link in links)
    sent = max(json_object(link["during"])["sent"] for link in links)
    over = _number(max(link["over_s"] for link in links))
    if quality.get("stall_share", 1) < 1:
        held = sorted({link["flows_held"] for link in links})
        flows = f"{held[0]} to {held[-1]}" if len(held) > 1 else f"{held[0]}"
        what = f"{flows} of {links[0]['flows']} flows stalled for {after} s or longer"
    else:
        what = f"{max(soon)} of {sent} had arrived after {after} s"
    return f"datagrams on {many(len(links), 'link')}: {what}; after {over} s {came} had arrived"


def _share(count: str) -> Callable[[Json], float | None]:
    return lambda measured: 100 * measured[count] / measured["sent"]


_QUALITIES: Mapping[str, tuple[str, str, Callable[[Json], float | None]]] = {
    "delay_ms": ("fastest round trip", " ms", lambda measured: measured["fastest_ms"]),
    "jitter_ms": ("spread of round trips", " ms", lambda measured: measured["spread_ms"]),
    "loss": ("lost", " %", lambda it: 100 * (it["sent"] - it["arrived"]) / it["sent"]),
    "duplicate": ("arrived twice", " %", _share("copies")),
    "reorder": ("overtaken", " %", _share("overtaken")),
    "rate_kbit": ("rate", " kbit/s", lambda measured: measured["rate_kbit"]),
}
"""For each effect on packets: the name of the measurement, the unit, and the key in the JSON."""


def _middle(measured: list[Json], measure: Callable[[Json], float | None]) -> str:
    values = [value for each in measured if (value := measure(each)) is not None]
    return f"{median(values):,.1f}" if values else "?"


def _clear(effect: Json) -> str:
    links = _objects(effect, "links")
    measured = [link for link in links if link.get("after")]
    sentence = f"datagrams arrive as before on {len(measured)} of {many(len(links), 'link')}"
    held = [json_object(link["let_go"]) for link in links if link.get("let_go")]
    if held:
        came, sent = sum(each["arrived"] for each in held), sum(each["sent"] for each in held)
        sentence = f"{sentence}; {came} of {sent} datagrams sent just before the heal arrived"
    if dropped := effect.get("dropped"):
        sentence = (
            f"{sentence}; {many(dropped, 'packet')} did not fit into the queue while links stalled"
        )
    if killed := ", ".join(effect.get("killed") or ()):
        sentence = f"{sentence}; the traffic shaper at {killed} had to be killed"
    died = ", ".join(effect.get("ended_before") or ())
    return f"{sentence}; the traffic shaper at {died} had died before" if died else sentence


def _processes(effect: Json) -> str:
    states = {"T": "stopped", "Z": "gone", None: "gone"}
    parts = []
    for change in _objects(effect, "processes"):
        after = change.get("state_after")
        state = states.get(after, f"in state {after}")
        parts.append(f"process {change.get('pid')} of {change.get('node')} is {state}")
    for life in _objects(effect, "again"):
        then = "after" if life.get("back") is True else "before"
        lived = f"{_number(life.get('lived_s'))} s after its start, {then} it was registered"
        parts.append(f"process {life.get('pid')} of {life.get('node')} was killed {lived}")
    graceful = effect.get("graceful")
    if graceful is not None:
        parts.append(f"ended by itself: {', '.join(graceful) or 'none'}")
    return "; ".join(parts) or _flat(effect)


def _power_loss(effect: Json) -> str:
    cut = [
        f"the log of {each.get('topic')}-{each.get('partition')} was truncated from"
        f" {each.get('log_end_before')} to {each.get('log_end_after')}"
        for each in _objects(effect, "replicas")
        if each.get("bytes_cut")
    ]
    return "; ".join([_processes(effect), *(cut or ["its logs were not truncated"])])


def _rolled(effect: Json) -> str:
    return "; ".join(
        f"{each['node']}: process {each['pid_before']} became {each['pid']}, registered after"
        f" {_number(each['back_s'])} s"
        for each in _objects(effect, "restarts")
    )


def _wiped(effect: Json) -> str:
    replicas = _objects(effect, "replicas")
    size = sum(int(each["bytes_wiped"]) for each in replicas)
    gone = f"{many(len(replicas), 'replica')} of {many(size, 'byte')}"
    return f"{_processes(effect)}; deleted from disk: {gone}"


def _refetched(effect: Json) -> str:
    missing = effect.get("missing") or ()
    lacks = f", not {', '.join(missing)}" if missing else ""
    back = many(len(effect["refetched"]), "replica")
    return f"{_back(effect)}; in the ISR again: {back}{lacks}"


def _flipped(effect: Json) -> str:
    flips = [
        f"bit {each['bit']} of byte {each['byte']} of {each['segment']} on {each['node']},"
        f" in the batch at offset {each['base_offset']}"
        for each in _objects(effect, "flips")
    ]
    return f"{'; '.join(flips)}: {'; '.join(effect.get('found') or ()) or 'no reader reported it'}"


def _bits_right(effect: Json) -> str:
    back, gone = effect.get("flipped_back") or (), effect.get("gone") or ()
    parts = [
        *([f"flipped back in {', '.join(back)}"] if back else []),
        *([f"truncated by the broker itself in {', '.join(gone)}"] if gone else []),
        f"{many(int(effect['sound']), 'batch', 'batches')} read, all checksums match",
    ]
    return "; ".join([*parts, _back(effect)])


def _disk_full(effect: Json) -> str:
    taken = sum(map(int, effect["taken"].values()))
    ended = ", ".join(effect.get("ended") or ()) or "none"
    return (
        f"{many(taken, 'byte')} filled; {_errors(effect)}; brokers that exited because of"
        f" that: {ended}"
    )


def _read_only(effect: Json) -> str:
    refused = ", ".join(effect.get("refused") or ()) or "none"
    return f"{_errors(effect)}; brokers that could not start on this disk: {refused}"


def _errors(effect: Json) -> str:
    return ", ".join(
        f"a write to the disk of {node} fails with {pair[1] or 'nothing'}"
        for node, pair in effect["errors"].items()
    )


def _disk_right(effect: Json) -> str:
    wrong = [f"{node} {error}" for node, error in effect["errors"].items() if error]
    return f"{', '.join(wrong) or 'the disk accepts writes again'}; {_back(effect)}"


def _led(led: Json) -> str:
    return f"{led.get('leader') or 'no broker'} led in epoch {led.get('leader_epoch')}"


def _place(effect: Json) -> str:
    topic, partition = effect["place"]
    return f"{topic}-{partition}"


def _elected(effect: Json) -> str:
    after = json_object(effect["after"])
    epoch = after.get("leader_epoch")
    now = f"{after.get('leader')} leads in epoch {epoch}"
    return f"{_place(effect)}: {_led(json_object(effect['before']))}, {now}"


def _elected_uncleanly(effect: Json) -> str:
    return f"{_elected(effect)}, which was not in the ISR ({', '.join(effect['last_isr'])})"


def _reassigned(effect: Json) -> str:
    replicas = [", ".join(json_object(effect[name])["replicas"]) for name in ("before", "after")]
    return f"{_place(effect)}: replicas {replicas[0]} → {replicas[1]}"


def _assigned_again(effect: Json) -> str:
    after = json_object(effect["after"])
    whole = ", all in the ISR" if {*after["replicas"]} <= {*after["isr"]} else ""
    return f"{_place(effect)}: replicas {', '.join(after['replicas'])}{whole}"


def _failed_over(effect: Json) -> str:
    return (
        f"{effect['before']} led the controllers in epoch {effect['epoch_before']},"
        f" {effect['after']} leads in epoch {effect['epoch_after']}; process {effect['gone']} has"
        " ended"
    )


def _churned(effect: Json) -> str:
    return f"{effect['by']} has the new topic {effect['seen']} in its metadata"


def _topics_gone(effect: Json) -> str:
    asked = ", ".join(effect["asked"])
    return (
        f"{many(effect['created'], 'topic')} had been created; the metadata of {asked} has"
        " none of them any more"
    )


def _clocks(effect: Json) -> str:
    return "; ".join(
        f"the clock of {each['node']}'s own log gained {_span(each['during_s'])} s; it was"
        f" {_number(each['before_s'])} s ahead before the fault"
        for each in _objects(effect, "clocks")
    )


def _span(values: list[float]) -> str:
    least, most = _number(min(values)), _number(max(values))
    return least if least == most else f"{least} to {most}"


def _clocks_true(effect: Json) -> str:
    ahead = [f"{node} {_number(by)} s ahead" for node, by in effect["ahead_s"].items()]
    return (
        f"by the brokers' own logs: {', '.join(ahead) or 'no running broker could report its time'}"
    )


def _disputed(effect: Json) -> str:
    struck = [
        f"{each['node']} after its vote for {each['voted_for']} in epoch {each['epoch']}"
        for each in _objects(effect, "struck")
    ]
    # Older versions did not measure links.
    slow = f"; {_quality(json_object(effect['slow']))}" if effect.get("slow") else ""
    return f"killed and restarted: {', '.join(struck)}{slow}"


def _slow_disks(effect: Json) -> str:
    return "; ".join(
        f"a flush on {node} took {during:.3f} s, and {before:.3f} s before the fault"
        for node, (before, during) in effect["flushes_s"].items()
    )


def _quick_disks(effect: Json) -> str:
    took = [f"{seconds:.3f} s on {node}" for node, seconds in effect["flushes_s"].items()]
    return f"a flush takes {', '.join(took)}" if took else "no flush measured: no broker runs there"


def _back(effect: Json) -> str:
    nodes = ", ".join(str(each.get("node")) for each in _objects(effect, "processes"))
    took = f"registered again after {_number(effect.get('took_s'))} s"
    if "was_gone" not in effect:
        return f"{nodes} {took}"
    gone = ", ".join(effect["was_gone"] or ())
    if gone == nodes:
        return f"{nodes} was no longer registered, and {took}"
    return f"{nodes} {took} (unregistered in between: {gone or 'none'})"


def _superseded(effect: Json) -> str:
    return f"ended by fault {effect.get('by_fault')}"


def _left(effect: Json) -> str:
    return f"not started: {', '.join(effect.get('nodes') or ())} stays down"


def _number(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) else "?"


def _flat(effect: Json) -> str:
    return ", ".join(f"{key} {value}" for key, value in _items(effect))


def _items(effect: Json) -> Iterator[tuple[str, object]]:
    return ((key, value) for key, value in effect.items() if key != "kind")


_EFFECTS: Mapping[str, Callable[[Json], str]] = {
    "cut": _cut,
    "flap": _flapping,
    "quality": _quality,
    "kill": _processes,
    "stop": _processes,
    "pause": _processes,
    "power-loss": _power_loss,
    "rolling-restart": _rolled,
    "wipe": _wiped,
    "bit-flip": _flipped,
    "disk-full": _disk_full,
    "read-only": _read_only,
    "slow-disk": _slow_disks,
    "disputed-election": _disputed,
    "preferred-election": _elected,
    "unclean-election": _elected_uncleanly,
    "reassignment": _reassigned,
    "controller-failover": _failed_over,
    "topic-churn": _churned,
    "clock": _clocks,
}
_HEALS: Mapping[str, Callable[[Json], str]] = {
    "join": _joined,
    "flapped": _flapped,
    "clear": _clear,
    "back": _back,
    "refetched": _refetched,
    "bits-right": _bits_right,
    "disk-right": _disk_right,
    "quick-disk": _quick_disks,
    "assigned-again": _assigned_again,
    "topics-gone": _topics_gone,
    "clock-true": _clocks_true,
    "superseded": _superseded,
    "left": _left,
}
