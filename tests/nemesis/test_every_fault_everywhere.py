"""Every kind of fault on every kind of hosts that claims it, told by witnesses of their own.

A kind without a proof fails, and so does a claim that no test takes at its word.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster.hosts.abilities import abilities_of, able
from cluster.hosts.clock import library
from cluster.hosts.groups import why_not as why_unlimited
from cluster.protocol import OF_SYSTEMS, Ability
from nemesis.registry import KINDS
from nemesis.targets import KEEPER
from tests.machine import fuse_works, needs, runs_here, tun_opens
from tests.nemesis.all_proofs import OF_LINKS, PROOFS, SEEDS_OF
from tests.nemesis.played_faults import (
    DOCKER,
    NAMESPACE,
    ORDINARY_USER,
    PROCESS,
    SSH,
    WITH_ZOOKEEPER,
    Rooms,
    Story,
)
from tests.nemesis.proofs import AROUND, Seen, how_late, spread_ms, way_of

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

ON_FUSE = frozenset({Ability.SLOW_DISK, Ability.FAULTY_DISK})
CLAIMS = {
    PROCESS: OF_SYSTEMS | {Ability.CLOCK, Ability.RESOURCES} | ON_FUSE,
    NAMESPACE: frozenset(Ability),
    DOCKER: OF_SYSTEMS | {Ability.CUT, Ability.CUT_CLIENTS, Ability.SHAPE, Ability.CONNECTIONS},
    SSH: OF_SYSTEMS | {Ability.CUT, Ability.SHAPE, Ability.CONNECTIONS},
}
"""What each kind of hosts is taken at its word for; by name, so that no machine's lack hides it."""
NEEDS_A_CLUSTER = frozenset(KINDS) - frozenset(OF_LINKS)
"""Kinds that need brokers. CI plays these kinds in namespaces, which support all of them, and the
night plays them on all hosts. A cluster costs more than all witnesses of links together."""
ONLY_AT_NIGHT = frozenset({"remade"})
"""Families that take long: a topic is deleted and created while brokers are down."""
BY_DAY = (NAMESPACE, "connections")
"""The broken connections that CI plays. `test_connections_of_hosts` breaks some over ssh, too."""
ON_DISKS = {name for name, kind in KINDS.items() if kind.needs & ON_FUSE}
"""Kinds below which a file system of ours lies."""
DISKS_BY_DAY = {KINDS[name].family_for(NAMESPACE): name for name in sorted(ON_DISKS, reverse=True)}
"""Of these: what of each family is played by day, on namespaces."""
MARKS = {
    NAMESPACE: [pytest.mark.namespaces, needs("root")],
    f"{NAMESPACE}{WITH_ZOOKEEPER}": [pytest.mark.namespaces, needs("root")],
    ORDINARY_USER: [pytest.mark.namespaces],
    DOCKER: [pytest.mark.docker],
    SSH: [pytest.mark.ssh],
}
pytestmark = [pytest.mark.everything, pytest.mark.timeout(1500)]


def played(room: str, kind: str) -> "ParameterSet":
    marks = [*MARKS.get(room, [])]
    marks += [] if kind in OF_LINKS else [pytest.mark.kafka]
    at_night = kind in NEEDS_A_CLUSTER and room.removesuffix(WITH_ZOOKEEPER) != NAMESPACE
    at_night |= KINDS[kind].family in ONLY_AT_NIGHT
    at_night |= Ability.CONNECTIONS in KINDS[kind].needs and (room, KINDS[kind].family) != BY_DAY
    at_night |= kind in ON_DISKS and (room != NAMESPACE or kind not in DISKS_BY_DAY.values())
    # The same shaper holds packets in all rooms, and it takes long.
    at_night |= room != NAMESPACE and KINDS[kind].family in {"stall", "stall-clients"}
    at_night |= room == SSH and KINDS[kind].family != "partition"
    marks += [pytest.mark.night] if at_night else []
    return pytest.param(room, kind, id=f"{kind}-{room}", marks=marks)


OF_ZOOKEEPER = tuple(name for name, kind in KINDS.items() if KEEPER in kind.only)
CASES = [
    *(
        (room, kind)
        for room in CLAIMS
        for kind in KINDS
        if KINDS[kind].needs <= CLAIMS[room] and kind not in OF_ZOOKEEPER
    ),
    *(
        (f"{room}{WITH_ZOOKEEPER}", kind)
        for room in (PROCESS, NAMESPACE)
        for kind in OF_ZOOKEEPER
        if KINDS[kind].needs <= CLAIMS[room]
    ),
    *((ORDINARY_USER, kind) for kind in OF_LINKS),
]


@pytest.fixture(scope="module")
def rooms(request: pytest.FixtureRequest) -> Iterator[Rooms]:
    with tempfile.TemporaryDirectory(prefix="rooms-", ignore_cleanup_errors=True) as scratch:
        Path(scratch).chmod(0o711)
        made = Rooms(Path(scratch), _asked_for(request.session.items))
        try:
            yield made
        finally:
            made.close()


def _asked_for(items: list[pytest.Item]) -> list[tuple[str, str]]:
    """Return the rooms and kinds of all tests of this module that are about to run."""
    here = [
        item.callspec.params
        for item in items
        if isinstance(item, pytest.Function) and item.path == Path(__file__)
        if hasattr(item, "callspec")
        if runs_here(item)
    ]
    return [(f"{each['room']}", f"{each['kind']}") for each in here if {"room", "kind"} <= {*each}]


def test_every_kind_has_a_proof() -> None:
    assert set(PROOFS) == set(KINDS)


@pytest.mark.parametrize(
    "hosts", [pytest.param(each, marks=MARKS.get(each, [])) for each in CLAIMS]
)
def test_hosts_claim_what_is_proven_here_and_nothing_else(hosts: str) -> None:
    lacking = set() if tun_opens() else {Ability.SHAPE}
    lacking |= set() if library() else {Ability.CLOCK}
    lacking |= {Ability.RESOURCES} if why_unlimited() else set()
    lacking |= set() if fuse_works() else ON_FUSE
    # Of ssh hosts nobody knows which they are, and so what they lack.
    assert able(abilities_of(hosts)) == CLAIMS[hosts] - (lacking if hosts != SSH else set())


def is_refused(story: Story, kind: str) -> bool:
    """Tell whether the product says in its room that it cannot do a kind, and see that it is so."""
    if "refused" not in story:
        return False
    reasons = [why for need in KINDS[kind].needs if (why := story["why_not"][need])]
    assert reasons
    assert f"fault {kind!r} at 1 s needs hosts that can" in story["refused"]
    for why in reasons:
        assert why in story["refused"]
        assert why in story["left_out"]
    lacks = {
        Ability.SHAPE: not story["tun_opens"],
        Ability.CLOCK: library() is None,
        Ability.RESOURCES: bool(why_unlimited()),
        **dict.fromkeys(ON_FUSE, not story["fuse_works"]),
    }
    assert all(lacks.get(need) for need in KINDS[kind].needs if story["why_not"][need])
    if Ability.SHAPE in KINDS[kind].needs:
        assert "cannot shape on n" in story["tried"]
        assert story["undone"], "the network of a node is not as it was"
    return True


@pytest.mark.parametrize(("room", "kind"), [played(*case) for case in CASES])
def test_a_fault_shows_and_is_gone_after_its_heal(rooms: Rooms, room: str, kind: str) -> None:
    story = rooms.story(room, kind)
    if is_refused(story, kind):
        return
    for each in (story, *story["others"]):
        _shows_and_is_gone(each, kind)


def _shows_and_is_gone(story: Story, kind: str) -> None:
    proof = PROOFS[kind]
    before, looks, after = story["before"], story["looks"], story["after"]
    assert not proof.shows(before, [before]), "the proof proves nothing"
    told = how_late(looks) if kind in SEEDS_OF else looks[-1]
    assert proof.shows(before, looks), (told, len(looks))
    assert proof.gone(before, after), (before, after)
    if proof.lasts:
        assert not proof.gone(before, looks[-1]), "it was gone before its heal"
        assert not proof.shows(before, [after]), "it is still there"
    assert story["undone"], "the network of a node is not as it was"
    assert story["effect"]["kind"]
    assert story["healed"]["kind"]


@pytest.mark.parametrize(("room", "kind"), [
    played(room, kind) for room, kind in CASES if kind in SEEDS_OF
])  # fmt: skip
def test_links_stall_in_the_direction_that_was_drawn(rooms: Rooms, room: str, kind: str) -> None:
    story = rooms.story(room, kind)
    if is_refused(story, kind):
        return
    drawn = set()
    for each in (story, *story["others"]):
        links = {(link["sender"], link["receiver"]) for link in each["effect"]["links"]}
        drawn.add(frozenset(links))
        for name in {f"{a}-{b}" for a, b in links | {(b, a) for a, b in links}} & {*each["before"]}:
            there = (*name.split("-"),)
            ways = {"there"} if there in links else set()
            ways |= {"back"} if there[::-1] in links else set()
            seen = {way for look in each["looks"] if (way := way_of(look[name]))}
            assert seen, (name, how_late(each["looks"]))
            assert seen <= ways, (name, links)
    assert len(drawn) == 3, "each way, and both"


def _of(*kinds: str) -> list["ParameterSet"]:
    return [played(room, kind) for room, kind in CASES if kind in kinds]


@pytest.mark.parametrize(
    ("room", "kind"), _of("delay", "jitter", "loss", "duplicate", "reorder", "bandwidth")
)
def test_links_are_as_bad_as_the_fault_says(rooms: Rooms, room: str, kind: str) -> None:
    story = rooms.story(room, kind)
    if is_refused(story, kind):
        return
    quality = story["effect"]["quality"]
    for name in AROUND:
        _is_as_bad(story["looks"][-1][name], quality)
    links = {(each["sender"], each["receiver"]) for each in story["effect"]["links"]}
    assert links == {("n1", "n2"), ("n2", "n1"), ("n2", "n3"), ("n3", "n2")}


def _is_as_bad(link: Seen, quality: Seen) -> None:
    """Compare what was seen of a link and back with what each way is said to do."""
    count, through = link["count"], (1 - quality["loss"]) ** 2
    assert abs(link["answered"] / count - through) < 0.2 or quality["rate_kbit"]
    assert link["trips_ms"][0] >= 2 * (quality["delay_ms"] - quality["jitter_ms"])
    assert spread_ms(link) >= quality["jitter_ms"] / 2
    # A question that comes twice is answered twice, and an answer may come twice.
    copies = count * ((1 + quality["duplicate"]) ** 2 - 1)
    assert 0.2 * copies <= link["copies"] <= 2 * copies
    assert link["overtaken"] >= count * quality["reorder"] / 4
    if quality["rate_kbit"]:
        assert link["kbit"] < 1.3 * quality["rate_kbit"]


@pytest.mark.parametrize(("room", "kind"), _of("power-loss"))
def test_a_log_loses_what_the_fault_says_that_it_cut(rooms: Rooms, room: str, kind: str) -> None:
    story = rooms.story(room, kind)
    cut = {each["topic"]: each["bytes_cut"] for each in story["effect"]["replicas"]}
    assert story["before"]["size"] - story["looks"][-1]["size"] == cut["story"]


@pytest.mark.parametrize(("room", "kind"), _of("wipe"))
def test_a_wiped_replica_is_fetched_to_where_it_was(rooms: Rooms, room: str, kind: str) -> None:
    story = rooms.story(room, kind)
    ends = {each["topic"]: each["log_end"] for each in story["effect"]["replicas"]}
    assert story["healed"]["log_ends"]["story-0"] == ends["story"]
    assert story["healed"]["missing"] == []


@pytest.mark.parametrize(("room", "kind"), _of("flapping"))
def test_each_phase_of_flapping_links_was_confirmed(rooms: Rooms, room: str, kind: str) -> None:
    phases = rooms.story(room, kind)["healed"]["phases"]
    assert [phase["cut"] for phase in phases] == [at % 2 == 0 for at in range(len(phases))]
    assert all(phase["confirmed"] for phase in phases)


@pytest.mark.parametrize(("room", "kind"), _of("bit-flip"))
def test_a_bit_lies_hidden_or_is_found_by_the_broker(rooms: Rooms, room: str, kind: str) -> None:
    story = rooms.story(room, kind)
    now, latent = story["looks"][-1], story["effect"]["latent"]
    assert latent == (now["differs"] == 1)
    assert latent == (now["invalid"] == story["before"]["invalid"])
    assert story["healed"]["flipped_back"] == (["story-0"] if latent else [])


@pytest.mark.parametrize(("room", "kind"), _of("kill"))
def test_nothing_of_the_story_is_lost_and_no_clock_is_left(
    rooms: Rooms, room: str, kind: str
) -> None:
    assert kind, "it has a room with brokers played"
    end = rooms.end(room)
    assert end["read"] == [f"message{number}" for number in range(1, end["sent"] + 1)]
    assert len(set(end["collected"].values())) == 1
    assert end["left"] == []


@pytest.mark.parametrize(("room", "kind"), [played(NAMESPACE, "controller-failover")])
def test_faults_of_leadership_that_would_come_to_nothing_are_refused(
    rooms: Rooms, room: str, kind: str
) -> None:
    assert kind, "it has a room with brokers played"
    refusals = rooms.refusals(room)
    assert "is not the controller: n" in refusals["another than the controller"]
    assert "to elect a leader; use --repl" in refusals["all who elect"]
    assert "use the target replicas(story,0)" in refusals["some of the replicas"]
