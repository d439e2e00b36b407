"""How each kind of fault is proven from outside: pure, from what witnesses saw.

A witness (`tests.nemesis.witnesses`) looks before a fault, while it is in force, and after its
heal. A proof tells whether what it saw shows the effect, and whether it shows that all is as
before. None of it is a fault's own word.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from results.record.terms import REMADE_PREFIX

Seen = Mapping[str, Any]
Shows = Callable[[Seen, Sequence[Seen]], bool]

NODE = "n2"
"""Whom faults of links hit."""
ASKED = (("n1", ("n2", "n3")), ("n2", ("n3",)), ("clients", ("n1", "n2")))
"""Who asks whom."""
AROUND = ("n1-n2", "n2-n3")
"""The links of brokers that end at the node."""
LATE = "late traffic"
"""The witness of links that hold what they carry."""
GOOD_MS = 50.0
"""Of a round trip over a good link on a busy machine; bad ones add 100 and more."""
LATE_MS = 1000.0
"""Of what comes over a link that stalls for 2 s and more, unless it is sent near the end of that;
busy machines are slow, and not so slow."""
LEAST_FLOWS = 3
"""Of 20, fewer that stall, or do not, come less than once in a thousand times."""
LEAST_AGAIN = 2
"""On a good link nothing is sent so often again; clients give up earlier."""
WRONG_S, RIGHT_S = 1.0, 0.5
"""By how much the stamps of a clock that is wrong differ at least, and of a right one at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """How one kind is proven.

    Attributes:
        witness: Who looks.
        shows: Whether the looks since the fault began show its effect, beside the one before it.
        gone: Whether a look shows that all is as it was at the one before.
        from_start: Looks begin with the injection, not after it.
        lasts: False: the effect is over by itself before the heal, or may be.
    """

    witness: str
    shows: Shows
    gone: Callable[[Seen, Seen], bool]
    from_start: bool = False
    lasts: bool = True


def is_whole(link: Seen) -> bool:
    """Tell whether all datagrams came over a link and back, once and in order."""
    return bool(
        link["answered"] == link["heard"] == link["count"]
        and not link["copies"]
        and not link["overtaken"]
        and link["connects"]
        and median_ms(link) < GOOD_MS
    )


def is_dead(link: Seen) -> bool:
    """Tell whether neither datagrams nor connections come over a link."""
    return not link["heard"] and not link["answered"] and not link["connects"]


def is_deaf(link: Seen) -> bool:
    """Tell whether all datagrams come over a link, and no answer."""
    return link["heard"] == link["count"] and not link["answered"] and not link["connects"]


def median_ms(link: Seen) -> float:
    """Return the median round trip."""
    trips: list[float] = link["trips_ms"]
    return trips[len(trips) // 2] if trips else float("inf")


def spread_ms(link: Seen) -> float:
    """Return between what lies the middle half of all round trips."""
    trips: list[float] = link["trips_ms"]
    return trips[len(trips) * 3 // 4] - trips[len(trips) // 4] if trips else 0


def _links(how: Mapping[str, Callable[[Seen], bool]]) -> Shows:
    """Tell of some links how they must be; all others must be whole."""
    return lambda _, looks: all(how.get(name, is_whole)(link) for name, link in looks[-1].items())


def _one_dead(among: tuple[str, ...]) -> Shows:
    def shows(_: Seen, looks: Sequence[Seen]) -> bool:
        bad = [name for name, link in looks[-1].items() if not is_whole(link)]
        return len(bad) == 1 and bad[0] in among and is_dead(looks[-1][bad[0]])

    return shows


def _flaps(_: Seen, looks: Sequence[Seen]) -> bool:
    """Tell whether the node's links went from dead to alive, or back, more than once."""
    dead = [all(is_dead(look[name]) for name in AROUND) for look in looks]
    alive = [all(is_whole(look[name]) for name in AROUND) for look in looks]
    clear = [now for now, other in zip(dead, alive, strict=True) if now or other]
    others = not any(is_dead(look["n1-n3"]) or is_dead(look["clients-n2"]) for look in looks)
    return others and sum(a != b for a, b in itertools.pairwise(clear)) > 1


def _links_gone(_: Seen, after: Seen) -> bool:
    return all(is_whole(link) for link in after.values())


def cut_proof(how: Mapping[str, Callable[[Seen], bool]]) -> Proof:
    """Return how a cut is proven, by what each link must be."""
    return Proof(witness="links", shows=_links(how), gone=_links_gone)


def stall_proof(*names: str) -> Proof:
    """Return how links that stall are proven: all comes, in order, seconds late one way."""
    return _late(names, lambda link: way_of(link) != "")


def half_stall_proof(*names: str) -> Proof:
    """Return how links are proven of whose connections some stall: all comes, some of it late."""
    return _late(names, _stalls_in_part)


def _late(names: Sequence[str], is_late: Callable[[Seen], bool]) -> Proof:
    """Return the proof by links that are each late in some look: they stall by turns."""

    def shows(_: Seen, looks: Sequence[Seen]) -> bool:
        clean = [look for look in looks if all(_is_soon(look[name]) for name in {*look} - {*names})]
        return all(any(is_late(look[name]) for look in clean) for name in names)

    return Proof(
        witness=LATE,
        shows=shows,
        gone=lambda _, after: all(map(_passes, after.values())),
    )


def _passes(link: Seen) -> bool:
    return bool(_is_soon(link) and median_ms(link) < GOOD_MS and link["connects"])


def _is_soon(link: Seen) -> bool:
    """Tell whether nothing stalls, on however busy a machine."""
    return _all_came_once(link) and max(link["trips_ms"]) < LATE_MS


def way_of(link: Seen) -> str:
    """Return which way a link stalls in a look, `there` or `back`, if all flows do; else none."""
    if not _all_came_once(link) or link["overtaken_there"]:
        return ""
    late_there, soon_there = _flows_late(link, "there_ms")
    late_back, soon_back = _flows_late(link, "back_ms")
    if len(late_there) == link["flows"] and not soon_there:
        return "there"
    is_back = len(soon_there) == len(late_back) == link["flows"] and not late_there | soon_back
    return "back" if is_back else ""


def how_late(looks: Sequence[Seen]) -> list[dict[str, str]]:
    """Return in few words how each link was in each look that saw anything but soon ones."""
    told = [
        {
            name: f"{way_of(link) or '-'} {link['answered']}/{link['heard']}/{link['count']},"
            f" {link['overtaken_there']} overtaken, {max(link['trips_ms'], default=-1):.0f} ms"
            for name, link in look.items()
            if not _is_soon(link)
        }
        for look in looks
    ]
    return [each for each in told if each]


def _stalls_in_part(link: Seen) -> bool:
    late, soon = _flows_late(link, "there_ms")
    some = min(len(late), len(soon)) >= LEAST_FLOWS and not late & soon
    return _all_came_once(link) and some


def _flows_late(link: Seen, what: str) -> tuple[set[int], set[int]]:
    """Return the flows of which some datagrams came late, and those of which some came soon."""
    flows, ms = link["flows"], link[what]
    late = {number % flows for number, each in enumerate(ms) if each > LATE_MS}
    soon = {number % flows for number, each in enumerate(ms) if each < LATE_MS}
    return late, soon


def _all_came_once(link: Seen) -> bool:
    return bool(link["answered"] == link["heard"] == link["count"] and not link["copies"])


def resets_proof(whose: str) -> Proof:
    """Return how resets are proven: a connection that both ends had is gone, and another is there.

    Args:
        whose: `brokers`, of which both ends are one; `clients`.
    """

    def shows(before: Seen, looks: Sequence[Seen]) -> bool:
        gone = before[whose].keys() - looks[-1][whose].keys()
        new = looks[-1][whose].keys() - before[whose].keys()
        return bool({before[whose][each]["pair"] for each in gone}
                    & {looks[-1][whose][each]["pair"] for each in new})  # fmt: skip

    return Proof(
        witness="connections",
        shows=shows,
        gone=lambda before, after: _nodes(before[whose]) == _nodes(after[whose]),
        from_start=True,
        lasts=False,
    )


def half_open_proof(whose: str) -> Proof:
    """Return how silent connections are proven: both ends have it, one sends again and again.

    Clients give it up soon, and then one end has it; servers do not. Of clients, a connection that
    both ends had must be seen later, too: with more that was sent again, or twice with one end.
    """
    lasts = whose != "clients"
    least = LEAST_AGAIN if lasts else 1

    def silent(look: Seen) -> dict[str, int]:
        return {
            name: each["again"]
            for name, each in look[whose].items()
            if each["ends"] == 2 and each["queue"] and each["again"] >= least
        }

    def shows(before: Seen, looks: Sequence[Seen]) -> bool:
        if lasts:
            return bool(silent(looks[-1]).keys() & before[whose].keys())
        return any(
            any(each["again"] > again for each in later)
            or sum(each["ends"] == 1 for each in later) > 1
            for number, look in enumerate(looks)
            for name, again in silent(look).items()
            if name in before[whose]
            for later in [[each[whose][name] for each in looks[number:] if name in each[whose]]]
        )

    return Proof(
        witness="connections",
        shows=shows,
        gone=lambda before, after: (
            not silent(after) and _nodes(before[whose]) == _nodes(after[whose])
        ),
        from_start=True,
        lasts=lasts,
    )


def _nodes(connections: Mapping[str, Seen]) -> set[str]:
    """Return who has any connection: what is idle need not be opened again."""
    return {node for each in connections.values() for node in each["pair"].split("-")}


def _bad(is_bad: Callable[[Seen], bool]) -> Proof:
    how = dict.fromkeys(AROUND, is_bad)
    return Proof(witness="traffic", shows=_links(how), gone=_links_gone)


def _is_late(link: Seen) -> bool:
    return bool(link["answered"] == link["count"] and link["trips_ms"][0] > 2 * GOOD_MS - 1)


def _is_uneven(link: Seen) -> bool:
    return (
        link["answered"] == link["count"] and not link["copies"] and spread_ms(link) > GOOD_MS / 3
    )


def _is_lossy(link: Seen) -> bool:
    return 0 < link["answered"] < link["heard"] < link["count"] and not link["copies"]


def _is_doubled(link: Seen) -> bool:
    return link["answered"] == link["count"] and link["copies"] > 0 and not link["overtaken"]


def _is_overtaken(link: Seen) -> bool:
    return bool(link["answered"] == link["count"] and link["overtaken"] > 0 and not link["copies"])


def _is_narrow(link: Seen) -> bool:
    return bool(0 < link["answered"] < link["count"] and link["kbit"] < 1.3 * 1024)


def _one(brokers: Mapping[str, str], *, standing: bool = False) -> bool:
    return [state in "Tt" for state in brokers.values()] == [standing]


def _another(before: Seen, after: Seen) -> bool:
    """Tell whether one broker runs, and not the one of before."""
    return _one(after["brokers"]) and set(after["brokers"]) != set(before["brokers"])


def _ended(*, in_order: bool) -> Shows:
    """Tell whether a node has no broker, and whether that had time to say so on its disk."""
    return lambda before, looks: (
        _one(before["brokers"])
        and not looks[-1]["brokers"]
        and (".kafka_cleanshutdown" in looks[-1]["folders"]) == in_order
    )


def _all_restarted(before: Seen, looks: Sequence[Seen]) -> bool:
    """Tell whether each node has another broker, and the one of before ended in order."""
    return all(
        _another(before[node], now) and now["ended"] > before[node]["ended"]
        for node, now in looks[-1].items()
    )


def _same(before: Seen, after: Seen) -> bool:
    """Tell whether a replica has what it had, as another replica has it."""
    return (
        after["size"] == before["size"] > 0
        and after["differs"] == 0
        and "story-0" in after["folders"]
        and _one(after["brokers"])
    )


def _lost_the_end(before: Seen, looks: Sequence[Seen]) -> bool:
    now = looks[-1]
    return not now["brokers"] and "story-0" in now["folders"] and now["size"] < before["size"]


def _lost_all(_: Seen, looks: Sequence[Seen]) -> bool:
    folders = set(looks[-1]["folders"])
    kept = {"meta.properties", "__cluster_metadata-0"} <= folders
    return not looks[-1]["brokers"] and "story-0" not in folders and kept


def _bit_differs(before: Seen, looks: Sequence[Seen]) -> bool:
    """Tell whether one byte differs while a broker runs, or whether that one said it found it."""
    noticed = looks[-1]["invalid"] > before["invalid"]
    return _another(before, looks[-1]) and (looks[-1]["differs"] == 1 or noticed)


def _disk_refuses(error: str) -> Shows:
    return lambda before, looks: (
        not before["error"] and looks[-1]["error"] == error and not looks[-1]["brokers"]
    )


def _disk_takes(before: Seen, after: Seen) -> bool:
    return not after["error"] and _one(after["brokers"]) and not before["error"]


def _is_wrong(before: Seen, looks: Sequence[Seen]) -> bool:
    """Tell whether the node's stamps are wrong, and another's are not."""
    del before
    return bool(abs(looks[-1]["ahead_s"]) > WRONG_S > RIGHT_S > abs(looks[-1]["other_s"]))


def _is_right(_: Seen, after: Seen) -> bool:
    return bool(abs(after["ahead_s"]) < RIGHT_S > abs(after["other_s"]))


def _first_leads(before: Seen, looks: Sequence[Seen]) -> bool:
    now = looks[-1]
    return bool(before["leader"] != now["leader"] == now["replicas"][0])


def _moved(before: Seen, looks: Sequence[Seen]) -> bool:
    return set(looks[-1]["replicas"]) != set(before["replicas"])


def _assigned_again(before: Seen, after: Seen) -> bool:
    return after["replicas"] == before["replicas"] and set(after["isr"]) == set(before["replicas"])


def _led_by_who_was_behind(_: Seen, looks: Sequence[Seen]) -> bool:
    """Tell whether somebody leads who was seen outside of an ISR, since when nobody led meanwhile.

    Or what others acknowledged without the leader is gone; who looks may miss a moment.
    """
    leader = looks[-1]["leader"]
    behind = [
        at for at, look in enumerate(looks) if look["leader"] > 0 and leader not in look["isr"]
    ]
    since = looks[behind[0] :] if behind else []
    return any(look["leader"] < 0 or look["lost"] for look in since)


def _followed(before: Seen, looks: Sequence[Seen]) -> bool:
    now = looks[-1]
    another = 0 < now["leader"] != before["leader"]
    return another and now["epoch"] > before["epoch"] and not now["brokers"]


def _voters_restarted_after_votes(before: Seen, looks: Sequence[Seen]) -> bool:
    """Tell whether more lives than before ended without a word after a vote, and another began."""
    now = looks[-1]
    died = [node for node, seen in now.items() if seen["died"] > before[node]["died"]]
    return bool(died) and all(now[node]["brokers"] != before[node]["brokers"] for node in died)


def _lives(seen: Seen) -> list[str]:
    """Return the folders of topics made again that are replicas, and none of a deleted life."""
    return [each for each in seen["folders"] if each.startswith(REMADE_PREFIX) and "." not in each]


def _deleted(seen: Seen) -> list[str]:
    return [
        each
        for each in seen["folders"]
        if each.startswith(REMADE_PREFIX) and each.endswith("-delete")
    ]


def remade_proof(*, in_order: bool) -> Proof:
    """Return how it is proven that a topic was made again while a broker was down.

    Who was there has a new replica, and one of a deleted life of it, which is removed a minute
    later; the broker that is down has one replica of an earlier life, and nothing deleted.
    """

    def shows(before: Seen, looks: Sequence[Seen]) -> bool:
        now = looks[-1]
        gone = [node for node, seen in now.items() if not seen["brokers"]]
        new = {node: {*_lives(seen)} - {*_lives(before[node])} for node, seen in now.items()}
        deleted = {
            node: {*_deleted(seen)} - {*_deleted(before[node])} for node, seen in now.items()
        }
        return (
            len(gone) == 1
            and _ended(in_order=in_order)(before[gone[0]], [now[gone[0]]])
            and all(new.values())
            and all(bool(deleted[node]) == (node not in gone) for node in now)
        )

    def is_back(before: Seen, after: Seen) -> bool:
        hit = [node for node, seen in after.items() if _another(before[node], seen)]
        others = [node for node in after if node not in hit]
        new = {frozenset(_lives(seen)) - {*_lives(before[node])} for node, seen in after.items()}
        return (
            len(hit) == 1
            and all(after[node]["brokers"] == before[node]["brokers"] for node in others)
            and len(new) == 1
        )

    return Proof(witness="all nodes' files", shows=shows, gone=is_back)


_FILES = "files"
PROOFS: dict[str, Proof] = {
    "isolate": cut_proof(dict.fromkeys(AROUND, is_dead)),
    "halves": cut_proof(dict.fromkeys(AROUND, is_dead)),
    "one-way-in": cut_proof({"n1-n2": is_dead, "n2-n3": is_deaf}),
    "one-way-out": cut_proof({"n1-n2": is_deaf, "n2-n3": is_dead}),
    "ring": Proof(witness="links", shows=_one_dead(AROUND), gone=_links_gone),
    "bridge": cut_proof({"n1-n3": is_dead}),
    "flapping": Proof(witness="links", shows=_flaps, gone=_links_gone, lasts=False),
    "client-cut": cut_proof({"clients-n2": is_dead}),
    "delay": _bad(_is_late),
    "jitter": _bad(_is_uneven),
    "loss": _bad(_is_lossy),
    "duplicate": _bad(_is_doubled),
    "reorder": _bad(_is_overtaken),
    "bandwidth": _bad(_is_narrow),
    "kill": Proof(witness=_FILES, shows=_ended(in_order=False), gone=_another),
    "stop": Proof(witness=_FILES, shows=_ended(in_order=True), gone=_another),
    "pause": Proof(
        witness="brokers",
        shows=lambda before, looks: (
            _one(looks[-1]["brokers"], standing=True)
            and set(looks[-1]["brokers"]) == set(before["brokers"])
        ),
        gone=lambda before, after: (
            _one(after["brokers"]) and set(after["brokers"]) == set(before["brokers"])
        ),
    ),
    "rolling-restart": Proof(
        witness="each node's files",
        shows=_all_restarted,
        gone=lambda before, after: all(_same(before[node], now) for node, now in after.items()),
        lasts=False,
    ),
    "power-loss": Proof(witness=_FILES, shows=_lost_the_end, gone=_same),
    "wipe": Proof(witness=_FILES, shows=_lost_all, gone=_same),
    "bit-flip": Proof(witness=_FILES, shows=_bit_differs, gone=_same, lasts=False),
    "disk-full": Proof(witness="disk", shows=_disk_refuses("ENOSPC"), gone=_disk_takes),
    "read-only": Proof(witness="disk", shows=_disk_refuses("EROFS"), gone=_disk_takes),
    "slow-disk": Proof(
        witness="requests",
        shows=lambda before, looks: looks[-1]["took_s"] > 3 * max(0.05, before["took_s"]),
        gone=lambda before, after: (
            after["took_s"] < 3 * max(0.05, before["took_s"])
            and after["brokers"].keys() == before["brokers"].keys()
        ),
    ),
    "clock-offset": Proof(witness="stamps", shows=_is_wrong, gone=_is_right),
    "clock-drift": Proof(witness="stamps", shows=_is_wrong, gone=_is_right),
    "clock-strobe": Proof(witness="stamps", shows=_is_wrong, gone=_is_right),
    "preferred-election": Proof(witness="metadata", shows=_first_leads, gone=_assigned_again),
    "reassignment": Proof(witness="metadata", shows=_moved, gone=_assigned_again),
    "controller-failover": Proof(witness="quorum", shows=_followed, gone=_another),
    "unclean-election": Proof(
        witness="elections", shows=_led_by_who_was_behind, gone=_assigned_again, from_start=True
    ),
    "disputed-election": Proof(
        witness="voters",
        shows=_voters_restarted_after_votes,
        gone=lambda before, after: (
            after.keys() == before.keys() and all(_one(now["brokers"]) for now in after.values())
        ),
        lasts=False,
    ),
    "topic-churn": Proof(
        witness="topics",
        shows=lambda before, looks: bool(set(looks[-1]["topics"]) - set(before["topics"])),
        gone=lambda before, after: after["topics"] == before["topics"],
    ),
}
