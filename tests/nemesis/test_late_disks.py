"""Disks of real hosts that are late: what tells that they are, beside what else breaks them."""

from dataclasses import replace

import pytest

from cluster.protocol import DISK_REQUESTS, DiskAnswers
from nemesis.protocol import Patience
from nemesis.slow_disk import LateDiskEffect, SlowDisk
from tests.nemesis.broken_disks import FakeFaultyDisks, aimed
from tests.nemesis.conftest import World

SOON = Patience(limit_s=0.1)


class LateDisks(FakeFaultyDisks):
    """Each request of a page takes as long as was ordered.

    Attributes:
        late_s: How long.
        share: How much of that it takes in truth.
    """

    def __init__(self, share: float = 1.0) -> None:
        super().__init__()
        self.late_s, self.share = 0.0, share

    def slow_disk(self, node: str, flush_s: float) -> None:
        assert node == "n1"
        self.late_s = flush_s

    def quicken_disk(self, node: str) -> None:
        assert node == "n1"
        self.late_s = 0.0

    def time_flush_s(self, node: str) -> float:
        return self.try_requests(node).took_s

    def try_requests(self, node: str) -> DiskAnswers:
        page = super().try_requests(node)
        return replace(page, took_s=page.asked * self.late_s * self.share)

    def disk_counts(self, node: str) -> dict[str, int]:
        late = {f"late {request}": 5 for request in DISK_REQUESTS if self.late_s}
        return {**super().disk_counts(node), **late}


@pytest.mark.parametrize(
    ("share", "refused", "shows"),
    [(1.0, (), True), (1.0, ("write",), True), (0.9, (), False), (0.9, ("write",), False)],
)
def test_a_page_is_as_late_as_what_was_asked_for_it(
    world: World, share: float, refused: tuple[str, ...], *, shows: bool
) -> None:
    hosts = LateDisks(share)
    fault = SlowDisk(aimed(1, "n1"), replace(world.site(), hosts=hosts))
    if refused:  # Nothing is read then: there is no page.
        hosts.fault_disk("n1", "refused", refused)
    fault.inject()
    effect = fault.confirm(SOON)
    assert (effect is not None) is shows
    if isinstance(effect, LateDiskEffect):
        assert effect.late == {"n1": 15}
    fault.heal()
    assert fault.confirm_healed(SOON) is not None
