"""Faults of links on real hosts, seen by sockets that are none of theirs.

In namespaces, as two users, and in containers.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from cluster.hosts.namespace import enter_prefix
from tests.cluster_hosts.conftest import REPOSITORY, as_ordinary_user
from tests.docker_lab import daemon
from tests.images.java_image import java_image

BAD = ("delay", "jitter", "loss", "duplicate", "reorder", "bandwidth")
CUT = ("ring", "bridge", "client-cut", "flapping")
COUNT = 150
"""Of datagrams, 3.2 megabits a second (`in_a_bad_hub`)."""
ASKED = {"n1-n2", "n1-n3", "n2-n3", "clients-n1", "clients-n2"}

Story = Mapping[str, Any]


ROOT, ORDINARY_USER, DOCKER = "root", "ordinary-user", "docker"
ROOMS = [
    pytest.param(ROOT, marks=pytest.mark.namespaces),
    pytest.param(ORDINARY_USER, marks=pytest.mark.namespaces),
    pytest.param(DOCKER, marks=pytest.mark.docker),
]


@pytest.fixture(scope="module", params=ROOMS)
def stories(request: pytest.FixtureRequest) -> Iterator[Story]:
    if request.param != ORDINARY_USER and os.geteuid():
        pytest.skip("root only")
    # Mostly they wait: two hubs at a time.
    with daemon() if request.param == DOCKER else nullcontext(), ThreadPoolExecutor() as pool:
        told: dict[str, Any] = {}
        for half in pool.map(lambda kinds: _played(kinds, room=request.param), [BAD, CUT]):
            assert set(half["before"]) == ASKED
            assert all(_is_whole(seen) for seen in half["before"].values())
            told |= half
        yield told


def _played(kinds: Sequence[str], *, room: str) -> Story:
    with tempfile.TemporaryDirectory(prefix="bad-", ignore_cleanup_errors=True) as scratch:
        return _played_in(Path(scratch), kinds, room=room)


def _played_in(scratch: Path, kinds: Sequence[str], *, room: str) -> Story:
    script = Path(__file__).with_name("in_a_bad_hub.py")
    where, image = (DOCKER, java_image()) if room == DOCKER else ("namespace", "")
    inner = [sys.executable, str(script), str(scratch / "run"), where, image, *kinds]
    if room != DOCKER:
        inner = [*enter_prefix(root=room == ROOT), *inner]
    if room == ORDINARY_USER and os.geteuid() == 0:
        inner = as_ordinary_user(inner, scratch)
    paths = {"HOME": str(scratch), "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        inner,
        env={**os.environ, **paths},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert isinstance(told, dict)
    return told


def _is_whole(seen: Story) -> bool:
    return seen["answered"] == COUNT and not seen["copies"] and not seen["overtaken"]


def _median(seen: Story) -> float:
    trips: list[float] = seen["trips"]
    return trips[len(trips) // 2]


def _spread(seen: Story) -> float:
    trips: list[float] = seen["trips"]
    return trips[len(trips) * 3 // 4] - trips[len(trips) // 4]


@pytest.mark.parametrize("kind", [*BAD, *CUT])
def test_everything_is_as_before_when_it_is_over(stories: Story, kind: str) -> None:
    story = stories[kind]
    assert all(_is_whole(seen) for seen in story["after"].values())
    assert story["clean"]  # Routes, devices and nft rules of every node and of the hub.
    for seen in story["after"].values():
        assert _median(seen) < 30


@pytest.mark.parametrize("kind", BAD)
def test_other_links_stay_good_while_those_of_a_node_are_bad(stories: Story, kind: str) -> None:
    during = stories[kind]["during"]
    for link in ("n1-n3", "clients-n1", "clients-n2"):
        assert _is_whole(during[link])
        assert _median(during[link]) < 30
    effect = stories[kind]["effect"]
    links = {(each["sender"], each["receiver"]) for each in effect["links"]}
    assert links == {("n1", "n2"), ("n2", "n1"), ("n2", "n3"), ("n3", "n2")}
    (undo,) = stories[kind]["undo"]
    assert undo["kind"] == "unshape"


def _bad_links(stories: Story, kind: str) -> tuple[dict[str, float], list[Story]]:
    story = stories[kind]
    return story["effect"]["quality"], [story["during"][link] for link in ("n1-n2", "n2-n3")]


def test_delayed_packets_are_late_both_ways(stories: Story) -> None:
    quality, seen = _bad_links(stories, "delay")
    for each in seen:
        assert _is_whole(each)
        assert each["trips"][0] >= 2 * quality["delay_ms"]


def test_jitter_is_late_by_very_different_times(stories: Story) -> None:
    quality, seen = _bad_links(stories, "jitter")
    for each in seen:
        assert each["answered"] == COUNT
        assert each["copies"] == 0
        assert _spread(each) > quality["jitter_ms"] / 2


def test_lost_packets_are_lost_both_ways(stories: Story) -> None:
    quality, seen = _bad_links(stories, "loss")
    through = (1 - quality["loss"]) ** 2
    for each in seen:
        assert abs(each["answered"] / COUNT - through) < 0.2
        assert each["answered"] < COUNT
        assert each["copies"] == each["overtaken"] == 0


def test_doubled_packets_come_twice(stories: Story) -> None:
    quality, seen = _bad_links(stories, "duplicate")
    for each in seen:
        assert each["answered"] == COUNT
        assert each["overtaken"] == 0
        # A question that comes twice is answered twice, and an answer may come twice.
        expected = COUNT * ((1 + quality["duplicate"]) ** 2 - 1)
        assert 0.4 * expected < each["copies"] < 2 * expected


def test_reordered_packets_come_behind_later_ones(stories: Story) -> None:
    quality, seen = _bad_links(stories, "reorder")
    for each in seen:
        assert each["answered"] == COUNT
        assert each["copies"] == 0
        assert each["overtaken"] > COUNT * quality["reorder"] / 4


def test_little_gets_through_a_narrow_link(stories: Story) -> None:
    quality, seen = _bad_links(stories, "bandwidth")
    for each in seen:
        assert each["answered"] < COUNT
        assert 0 < each["kbit"] < 1.3 * quality["rate_kbit"]
    assert stories["bandwidth"]["after"]["n1-n2"]["kbit"] > 2 * quality["rate_kbit"]


@pytest.mark.parametrize(
    ("kind", "dead"), [("ring", "n1-n2 n2-n3"), ("bridge", "n1-n3"), ("client-cut", "clients-n2")]
)
def test_cut_links_are_dead_and_no_others(stories: Story, kind: str, dead: str) -> None:
    during = stories[kind]["during"]
    silent = {link for link, seen in during.items() if seen["answered"] == 0}
    assert len(silent) == 1
    assert silent <= set(dead.split())
    assert all(_is_whole(seen) for link, seen in during.items() if link not in silent)


def test_flapping_links_are_dead_and_alive_by_turns(stories: Story) -> None:
    story = stories["flapping"]
    changes = [a != b for a, b in zip(story["during"], story["during"][1:], strict=False)]
    assert sum(changes) >= 2
    assert {0, 5} <= set(story["during"])
    phases = story["healed"]["phases"]
    assert [phase["cut"] for phase in phases] == [at % 2 == 0 for at in range(len(phases))]
    assert all(phase["confirmed"] for phase in phases)
    assert all(phase["dropped_before"] > 0 for phase in phases if not phase["cut"])
    assert len(story["healed"]["alive"]) == 4
