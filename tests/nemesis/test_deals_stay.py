"""A seed deals on real hosts what it has always dealt: a stored plan can be played again.

The digests are of what was dealt before there was any kind `by_hand`, and before what takes records
was dealt alone. That moved times, so that fewer faults fit; what comes, whom it hits and how long
it is held stayed. A new kind that changes a digest is one for `by_hand`, or the changelog says that
seeds deal otherwise.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator

import pytest

from cluster.protocol import Ability
from nemesis.registry import KINDS
from nemesis.schedule import deal_schedule
from nemesis.scheduled import ScheduledFault
from nemesis.targets import KEEPER
from results.record.plan import ALL, NEMESIS_KINDS, Plan

REAL = frozenset(Ability)
CLUSTERS = ((3, "kafka:4.3.1"), (5, "kafka:4.3.1"), (3, "kafka:4.3.1:controllers"))
KEPT = ((3, "kafka:3.9.1:zookeeper"), (5, "kafka:3.9.1:zookeeper"))
OF_KEEPER = {kind.family for kind in KINDS.values() if KEEPER in kind.only}
TAKING = tuple(dict.fromkeys(kind.family for kind in KINDS.values() if kind.when_whole))
GENTLE = tuple(family for family in NEMESIS_KINDS if family not in TAKING)
"""More than share one lane."""
BEFORE_STALLS = GENTLE[: GENTLE.index("stall")]
"""What a plan has that was stored before links could stall; `all` deals otherwise since."""
BEFORE_AFTERMATHS = GENTLE[: GENTLE.index("aftermath")]
"""The same, from before anybody struck in an aftermath."""
BEFORE_FAULTY_DISKS = GENTLE[: GENTLE.index("slow-disks")]
"""The same, from before disks of real hosts were late or broke requests."""
DEALT = {
    (): "6d34b2d3ab4f54d2",
    BEFORE_STALLS: "11aea2f3f4c20812",
    BEFORE_AFTERMATHS: "fc6cccff43915b96",
    BEFORE_FAULTY_DISKS: "fc4caeead7d36c8d",
    GENTLE: "abc78b0457940094",
    ("connections",): "50aa1c92f829d380",
    ("client-connections",): "ba7531e27b45e9b5",
    ("stall",): "977029c9ca6b18b3",
    ("stall-clients",): "c17f83ccd2194a79",
    ("partition",): "8b0cc2c46cd37bea",
    ("splits",): "7a713bc118e792a8",
    ("clients",): "285df3b65ce1d25d",
    ("network",): "e067c32414f7b8d1",
    ("kill",): "c2ebda730289b616",
    ("stop",): "a54ee6a0db767677",
    ("pause",): "008d786237943454",
    ("rolling",): "28f3262f489f86dd",
    ("disk",): "cc31badc61d484cf",
    ("clock",): "23ab1b4762bf65c1",
    ("topics",): "10a4ce89f8b5cf9b",
    ("outage",): "3320bef95298b175",
    ("keeper",): "a5dff261f96dfff8",
    ("keeper-links",): "21df787c1da97cad",
    ("double",): "1a8fd1eba99f9d50",
    ("aftermath",): "159278e7c0793805",
    ("remade",): "3ed5e288c33e4774",
    ("resources",): "704b0915b87e35bc",
    ("slow-disks",): "827729f159ce9e4b",
    ("disk-errors",): "d22d8c1b97ca3f67",
    ("clients", "kill", "pause"): "4f4e8a97e8a7f439",
}
"""By families, none being the default's: digests of schedules in which nothing takes records."""
DEALT_FIRST = {
    ("power-loss", 14): "7f618022fde62fd1",
    ("wipe", 14): "fa54186eb7578d84",
    ("bit-flip", 14): "916c5e60973389e0",
    ("leadership", 17): "b97b88c48b2ed738",
    ("lost-flushes", 11): "68d6c0697ffe7f36",
    # Stalls take 12 s to be confirmed and healed, so that fewer fit.
    (ALL, 17): "ea7096d4242a60c0",
}
"""By family, and how many faults of each lane: digests of all but their times."""


def schedules(*families: str, time_limits_s: Iterable[float]) -> Iterator[list[ScheduledFault]]:
    named = {"nemesis": families} if families else {}
    for time_limit_s in time_limits_s:
        for seed in range(5):
            for nodes, system in KEPT if {*families} <= OF_KEEPER and families else CLUSTERS:
                of_run = {"seed": seed, "time_limit_s": time_limit_s, "hosts": "namespace"}
                plan = Plan.model_validate({"nodes": nodes, "system": system, **of_run, **named})
                faults = [*deal_schedule(plan, abilities=REAL).faults]
                assert faults, plan
                yield faults


def digest(dealt: object) -> str:
    return hashlib.sha256(json.dumps(dealt).encode()).hexdigest()[:16]


def whole(*families: str) -> str:
    return digest([
        [(each.at_s, each.kind, each.target, each.hold_s, each.lane) for each in faults]
        for faults in schedules(*families, time_limits_s=(60, 300))
    ])  # fmt: skip


def first(family: str, count: int) -> str:
    lanes = [
        [(each.kind, each.target, each.hold_s) for each in faults if each.lane == lane][:count]
        for faults in schedules(family, time_limits_s=(300,))
        for lane in (0, 1)
    ]
    assert all(len(lane) in {0, count} for lane in lanes)
    return digest(lanes)


@pytest.mark.parametrize("families", DEALT, ids=lambda families: "+".join(families) or "default")
def test_seeds_deal_what_they_dealt(families: tuple[str, ...]) -> None:
    assert whole(*families) == DEALT[families]


@pytest.mark.parametrize(("family", "count"), DEALT_FIRST)
def test_what_takes_records_moves_times_and_nothing_else(family: str, count: int) -> None:
    assert first(family, count) == DEALT_FIRST[family, count]


def test_every_family_is_held_to_what_it_dealt() -> None:
    held = {
        *(family for families in DEALT for family in families),
        *(each for each, _ in DEALT_FIRST),
    }
    assert held == {*NEMESIS_KINDS, ALL}
