"""The cards of a witness: who acknowledged it, who led next, and who led when the run ended."""

import dataclasses

from results.page.case import Reign
from results.page.facts import facts_of
from results.record.verdict import Evidence
from tests.results.conftest import lost_write

FIRST = Reign(from_ns=0, to_ns=22, leader=1, epoch=4)
VACANT = Reign(from_ns=22, to_ns=23, leader=-1, epoch=5)
AGAIN = Reign(from_ns=22, to_ns=23, leader=1, epoch=5)
NEXT = Reign(from_ns=23, to_ns=40, leader=3, epoch=5)
LAST = Reign(from_ns=40, to_ns=66, leader=1, epoch=6)


def leaders(*reigns: Reign, **changes: object) -> list[tuple[str, str]]:
    example = lost_write()
    evidence: Evidence = {**example.evidence, "final_leader": 1, "final_leader_epoch": 6, **changes}  # type: ignore[dict-item] # by name
    return [
        card
        for card in facts_of(dataclasses.replace(example, evidence=evidence), reigns)
        if "lea" in card[0] or "by" in card[0]
    ]


ACKNOWLEDGED = ("acknowledged by", "broker 1 (n1), epoch 4")
AT_THE_END = ("leader when the run ended", "broker 1 (n1), epoch 6")


def test_who_led_next_is_not_taken_for_who_led_when_the_run_ended() -> None:
    following = ("next leader", "broker 3 (n3), epoch 5")
    assert leaders(FIRST, VACANT, NEXT, LAST) == [ACKNOWLEDGED, following, AT_THE_END]


def test_a_leader_that_is_elected_again_is_not_the_next_one() -> None:
    assert leaders(FIRST, AGAIN, LAST) == [ACKNOWLEDGED, AT_THE_END]


def test_a_next_leader_that_led_to_the_end_has_one_card() -> None:
    last = dataclasses.replace(LAST, leader=3)
    assert leaders(FIRST, last, final_leader=3) == [
        ACKNOWLEDGED, ("next leader, and when the run ended", "broker 3 (n3), epoch 6"),
    ]  # fmt: skip


def test_nobody_is_named_as_next_without_the_epoch_of_the_acknowledgement() -> None:
    unknown = leaders(FIRST, NEXT, leader_then=None, leader_epoch_then=None)
    assert unknown == [AT_THE_END]


def test_other_kinds_say_who_led_then() -> None:
    of_a_broker = leaders(NEXT, leader_then=None, leader_epoch_then=None, broker=2, epoch=7)
    assert of_a_broker[0] == ("leader then", "broker 2 (n2), epoch 7")


def test_without_a_witness_there_are_no_cards() -> None:
    assert facts_of(None) == ()
