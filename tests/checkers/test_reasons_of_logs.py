"""What causes say of replicas' logs: each clause with its rows, and without them a hair beside."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from checkers import (
    committed_truncation,
    log_divergence,
    log_end_regression,
    log_start_moved,
    metadata_divergence,
    two_leaders,
    under_replicated,
)
from checkers.facts import DiskLoss, RunFacts
from checkers.group import Group
from checkers.protocol import Excuse, Proved
from checkers.quorum import QuorumFacts
from checkers.replica_reasons import stop_text
from tests.checkers.faithful_clients import Row
from tests.checkers.faithful_quorum import QUORUM_PLACE
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    ack,
    elected,
    facts,
    group,
    leads,
    log,
    state,
)
from tests.checkers.reasons import (
    NODES,
    STOPPED,
    announced,
    cause,
    causes,
    look,
    metadata,
    written,
)


def cut(node: str, from_offset: int, *, at: int | None = None) -> Row:
    return {"node": node, "from_offset": from_offset, "to_offset": None, "observed_ns": at,
            "reason": "told to"}  # fmt: skip


# Two records of one epoch


def copies(
    *rows: Row, sends: tuple[Row, ...] = (), third: bool = True, sequence: int = 5, value: int = B
) -> Group:
    """n1 has another record of epoch 0 at offset 0."""
    held = [*log("n1", (0, value)), *log("n2", (0, A)), *(log("n3", (0, A)) if third else ())]
    held[0] = {**held[0], "sequence": sequence, "record_hash": B * 7}
    return group(leadership=[*rows], replica_records=held, sends=[*sends])


@pytest.mark.parametrize(
    ("on", "told"),
    [
        (copies(leads(2, 0), sends=(ack(A, 0),)),
         ("only n2 led in epoch 0; n2, n3 and the acknowledged send agree, so the copy of n1 was"
          " changed, or n1 wrote it without being the leader")),
        (copies(leads(2, 0), sends=(ack(A, 1),)),
         ("only n2 led in epoch 0; n2 and n3 agree, so the copy of n1 was changed, or n1 wrote it"
          " without being the leader")),
        (copies(leads(2, 0), third=False),
         "only n2 led in epoch 0, so one of the copies was changed; no third copy shows which one"),
        (copies(leads(1, 0), sends=(ack(A, 0), ack(B, 0, op=2, at=5 * S))),
         ("only n1 led in epoch 0, and both records were acknowledged there: n1 assigned one"
          " offset to two messages, or another broker accepted one without being the leader")),
        (copies(leads(2, 0), sends=(ack(B, 0), ack(A, 0, op=2, at=5 * S)), third=False),
         ("only n2 led in epoch 0, and both records were acknowledged there: n2 assigned one"
          " offset to two messages, or another broker accepted one without being the leader")),
        (copies(leads(1, 1), sends=(ack(B, 0), ack(A, 0, op=2, at=5 * S))),
         ("the run's record does not show the leader of epoch 0, and both records were"
          " acknowledged there: its leader assigned one offset to two messages, or another broker"
          " accepted one without being the leader")),
        (copies(leads(1, 0), sends=(ack(A, 0),)),
         ("only n1 led in epoch 0, and n2 and n3 hold the record that n1 had written: n1's own"
          " copy was changed afterwards")),
        (copies(leads(1, 1)),
         ("the run's record does not show the leader of epoch 0; n2 and n3 agree, so the copy of"
          " n1 was changed")),
    ],
)  # fmt: skip
def test_a_copy_is_wrong_if_the_others_and_its_sender_say_so(on: Group, told: str) -> None:
    assert cause(two_leaders.CHECKER, on) == told


def test_a_copy_with_its_producers_number_was_copied_and_changed() -> None:
    told = cause(two_leaders.CHECKER, copies(leads(2, 0), sends=(ack(A, 0),), sequence=0))
    assert told == (
        "only n2 led in epoch 0; n2, n3 and the acknowledged send agree, and the copy of n1 has"
        " the same producer and sequence (1, 0): the record was copied, and then changed on n1"
    )
    # A retry of the send has its number, too, and its value.
    again = copies(leads(2, 0), sends=(ack(A, 0),), sequence=0, value=A)
    assert cause(two_leaders.CHECKER, again).endswith("or n1 wrote it without being the leader")
    unnumbered = copies(leads(2, 0), sequence=-1)
    assert cause(two_leaders.CHECKER, unnumbered).endswith(
        "or n1 wrote it without being the leader"
    )


def test_two_that_were_named_as_leaders_may_both_have_written() -> None:
    told = causes(two_leaders.CHECKER, copies(leads(1, 0, source="metadata"), leads(2, 0)))
    assert told[-1].startswith(
        "n1 and n2 were both reported as leader of epoch 0, so each may have"
    )


# Replicas that differ


def diverged(records: list[Row], **rows: list[Row]) -> Group:
    marks = [state(node, 3, 3) for node in NODES]
    return group(
        STOPPED, replica_records=records,
        **{**rows, "replica_states": marks + rows.get("replica_states", [])},
    )  # fmt: skip


GAP = [*log("n1", (0, A)), *log("n1", (0, C), start=2), *log("n2", (0, A), (0, B), (0, C)),
       *log("n3", (0, A), (0, B), (0, C))]  # fmt: skip
PASSED = [look("n1", 1, 1), look("n1", 2, 2)]


def test_who_lacks_a_record_between_others_left_it_out_or_lost_it() -> None:
    on = diverged(GAP, leadership=[leads(2, 0)], replica_states=PASSED)
    assert cause(log_divergence.CHECKER, on) == (
        "only n1 lacks it, and n2 and n3 hold it; n1 recorded no truncation, and its log"
        " continues after this offset: it skipped the record when it copied that part of the log"
        " between 1.000 s and 2.000 s, or lost the record later"
    )
    unseen = diverged(GAP, leadership=[leads(2, 0)], replica_states=[look("n1", 1, 1)])
    assert "between" not in causes(log_divergence.CHECKER, unseen)[0]


def test_the_leader_that_wrote_a_record_cannot_have_left_it_out() -> None:
    on = diverged(GAP, leadership=[leads(1, 0)], replica_states=PASSED)
    assert causes(log_divergence.CHECKER, on)[0] == (
        "only n1 lacks it, and n2 and n3 hold it: n1, leader of the record's epoch 0, lost the"
        " record after its replication"
    )


def test_who_was_cut_once_may_have_fetched_less_again() -> None:
    rows = {"leadership": [leads(2, 0)], "replica_states": PASSED}
    on = diverged(GAP, **rows, truncations=[cut("n1", 1)])
    head = "only n1 lacks it, and n2 and n3 hold it;"
    tail = "and its later fetches did not bring the record back"
    assert causes(log_divergence.CHECKER, on)[0] == (
        f"{head} n1 truncated its log from offset 1 on (told to), {tail}"
    )
    loss = DiskLoss(nodes=frozenset({"n1"}), topic="log-0", partition=0, end_after=0,
                    end_before=3, until_ns=S, excuse="power-loss")  # fmt: skip
    both = replace(on, facts=replace(on.facts, disk_losses=(loss,)))
    assert causes(log_divergence.CHECKER, both)[0] == (
        f"{head} n1's log may once have lost all records from offset 0 on (by a truncation or a"
        f" disk fault), {tail}"
    )
    alone = replace(diverged(GAP, **rows), facts=both.facts)
    assert causes(log_divergence.CHECKER, alone)[0] == (
        f"{head} a fault of n1's disk may once have removed all records from offset 0 on, {tail}"
    )
    behind = diverged(GAP, **rows, truncations=[cut("n1", 2)])
    assert "recorded no truncation" in causes(log_divergence.CHECKER, behind)[0]


OLDER = [*log("n1", (3, A), (3, B), (3, C)), *log("n2", (3, A), (3, B), (3, C)),
         *log("n3", (0, A), (3, B), (3, C))]  # fmt: skip


def elected_uncleanly() -> list[Row]:
    return [leads(2, 3, at=2 * S), {**elected(2, 3, 7, unclean=True), "isr": [2]}]


def test_who_keeps_an_older_record_did_not_cut_it_or_has_it_back() -> None:
    head = (
        "n1 and n2 hold the record that n2, leader of epoch 3 by an unclean election, wrote there;"
        " n3"
    )
    none = diverged(OLDER, leadership=elected_uncleanly())
    assert causes(log_divergence.CHECKER, none)[0] == (
        f"{head} kept the older record of epoch 0, recorded no truncation, and holds records of"
        " epoch 3 after it"
    )
    alone = [*OLDER[:6], *log("n3", (0, A), (0, B), (0, C))]
    apart = causes(log_divergence.CHECKER, diverged(alone, leadership=elected_uncleanly()))[0]
    assert apart == (
        f"{head} kept the older record of epoch 0, and the run's record does not show that it"
        " followed that leader"
    )
    logged = diverged(OLDER, leadership=elected_uncleanly(), truncations=[cut("n3", 0)])
    assert causes(log_divergence.CHECKER, logged)[0] == (
        f"{head} recorded a truncation of its log from offset 0 on, but still holds the older"
        " record of epoch 0"
    )
    # An end may be two seconds older than its note, and n3 itself must have known of the epoch.
    knew = [*elected_uncleanly(), metadata("n3", 2, 3, 2.5)]
    for at_s, rows, back in (
        (4.5, knew, True), (4.4, knew, False), (1, knew, False), (9, elected_uncleanly(), False),
    ):  # fmt: skip
        seen = diverged(OLDER, leadership=rows, replica_states=[look("n3", 0, at_s)])
        told = causes(log_divergence.CHECKER, seen)[0]
        assert ("came back, or never left the disk" in told) is back
    assert (f"{head} knew of that epoch by 2.500 s, and its log end offset was at most 0 at 4.500"
           " s") in (
        causes(log_divergence.CHECKER, diverged(
            OLDER, leadership=knew, replica_states=[look("n3", 0, 4.5)]))[0]
    )  # fmt: skip


def test_what_a_log_did_not_reach_when_the_epoch_was_known_it_did_not_keep() -> None:
    told = leads(2, 3, at=2 * S)
    for at_s, kept in ((4, False), (3.9, True)):  # An end may be two seconds older than its note.
        seen = diverged(
            OLDER, leadership=[*elected_uncleanly()[1:], told], replica_states=[look("n3", 0, at_s)]
        )
        why = causes(log_divergence.CHECKER, seen)[0]
        assert ("kept the older record" in why) is kept
        later = "n3's log end offset was 0 at 4.000 s, after that epoch had been reported, but its"
        back = (
            " log holds a record of epoch 0 at offset 0: the record was written later, or came back"
        )
        assert (f"{later}{back}" in why) is (not kept)


def test_what_is_damaged_in_one_of_two_copies_is_named() -> None:
    held = [row for node in NODES for row in log(node, (0, A), (0, B), (0, C))]
    held = [{**row, "damage": 0} for row in held]
    held[0] |= {"damage": 3, "record_hash": 1}
    told = causes(log_divergence.CHECKER, diverged(held, leadership=[leads(3, 0)]))[0]
    assert told == (
        "only n3 led in epoch 0; n2 and n3 agree, so the copy of n1 was changed, or n1 wrote it"
        " without being the leader; payload and key differ from the sent message in the copy of"
        " n1"
    )


def test_a_log_that_could_not_be_read_is_not_said_to_lack_anything() -> None:
    about = replace(STOPPED, unreadable_nodes=frozenset({"n1"}))
    on = replace(diverged(GAP, leadership=[leads(2, 0)]), facts=about)
    assert causes(log_divergence.CHECKER, on)[0] == (
        "n1 may hold the record: its log could not be read to its end"
    )


def test_what_kafka_itself_allows_is_the_cause() -> None:
    on = diverged(OLDER)
    found = replace(log_divergence.CHECKER.check(on).anomalies[0], excuses=(Excuse.REUSED.value,))
    assert "KIP-380" in log_divergence.CHECKER.why(on, found)


# The controllers' log


def of_quorum(records: list[Row], leaders: Mapping[int, tuple[str, ...]]) -> Group:
    marks = dict.fromkeys(NODES, 3)
    about = facts(quorum=QuorumFacts(marks=marks, leaders=leaders))
    made = group(about, replica_records=[{**each, **QUORUM_PLACE} for each in records])
    return replace(made, **QUORUM_PLACE)


def test_the_quorums_leader_and_the_other_copies_show_which_controller_is_wrong() -> None:
    other = [*log("n1", (1, A)), *log("n2", (1, B)), *log("n3", (1, A))]
    other = [{**each, "producer_id": -1, "sequence": -1} for each in other]
    led = {1: ("n1",)}
    assert cause(metadata_divergence.CHECKER, of_quorum(other, led)) == (
        "only n1 led in epoch 1; n1 and n3 agree, so the copy of n2 was changed, or n2 wrote it"
        " without being the leader"
    )
    on = of_quorum(other, led)
    told = {"ISR of log-0-0": {"n1": "[1, 3]", "n2": "[1]", "n3": "[1, 3]"}}
    on = replace(on, facts=replace(on.facts, quorum=replace(on.facts.quorum, disputed={0: told})))
    assert causes(metadata_divergence.CHECKER, on)[0].endswith(
        "wrote it without being the leader; the ISR of log-0-0 is [1, 3] on n1, and [1] on n2"
    )
    unknown = causes(metadata_divergence.CHECKER, of_quorum(other, {2: ("n1",)}))[0]
    assert unknown.startswith(
        "the run's record does not show the leader of epoch 1; n1 and n3 agree"
    )


def test_who_lacks_a_record_of_the_quorum_is_named() -> None:
    records = [{**each, "leader_epoch": 1} for each in GAP]
    assert cause(metadata_divergence.CHECKER, of_quorum(records, {1: ("n2",)})) == (
        "n1 lacks the record that n2, the quorum's leader of epoch 1, wrote there; n2 and n3 hold"
        " it, and n1 skipped it or lost it"
    )


# What is on too few replicas


def scarce(
    *states: Row,
    truncations: tuple[Row, ...] = (),
    about: RunFacts = STOPPED,
    led: tuple[Row, ...] = (),
) -> Group:
    """Broker 1 leads, and holds alone what was acknowledged at offset 1."""
    held = [*log("n1", (0, A), (0, B)), *log("n2", (0, A)), *log("n3", (0, A))]
    sends = [ack(B, 1, at=5 * S)]
    told = [{**leads(1, 0, at=at * S), "incarnation": 0} for at in range(1, 9)]
    return group(
        about, sends=sends, leadership=[*told, *led], replica_records=held,
        replica_states=[*states], truncations=[*truncations],
    )  # fmt: skip


SEEN = (look("n2", 2, 60), look("n3", 2, 61))
ALL_SEEN: tuple[Row, ...] = tuple({**each, "snapshot": "noted"} for each in SEEN)
"""At the last look before the stop."""


def test_what_was_there_at_the_last_look_went_in_the_stop() -> None:
    told = "n2 and n3 reported a log end offset above it in the last observation, at 61.000 s,"
    assert cause(under_replicated.CHECKER, scarce(*ALL_SEEN)) == (
        f"{told} and no truncation is recorded, so the record was lost in the clean stop, or"
        " afterwards"
    )
    logged = cause(under_replicated.CHECKER, scarce(*ALL_SEEN, truncations=(cut("n2", 1),)))
    assert logged == f"{told} so the record was lost in the clean stop, or afterwards"


def test_what_was_there_long_before_the_stop_may_have_gone_before_it() -> None:
    told = "n2 and n3 reported a log end offset above it in the last observation, at 60.000 s, and"
    for seen in (SEEN, (ALL_SEEN[0], SEEN[1])):
        assert cause(under_replicated.CHECKER, scarce(*seen)) == (
            f"{told} no truncation is recorded, so the record was lost after that"
        )


def written_down(mark: int, *, at: int = 62, last: int = 2) -> str:
    """What is said of a leader whose final high watermark is one, and that told another last."""
    looks = [look("n2", 2, 50, mark=2), look("n2", 2, at, mark=last)]
    final = {**state("n2", 1), "high_watermark": mark, "high_watermark_source": "checkpoint"}
    return stop_text(group(STOPPED, replica_states=[*looks, final]), "n2", 1)


def test_a_high_watermark_that_was_written_down_in_the_stop_shows_when_the_end_went() -> None:
    assert written_down(1) == "clean stop, before it wrote its high watermark 1 to disk"
    assert written_down(2) == (
        "clean stop after it had written its high watermark 2 to disk, or afterwards"
    )
    assert written_down(1, last=1) == "clean stop, or afterwards", "it had gone back before"


@pytest.mark.parametrize(
    ("ends", "known"), [((2, 2, 3), True), ((2, 3, 3), False), ((2, 3, 2), False)]
)
def test_a_follower_that_fetched_since_knows_the_high_watermark(
    ends: tuple[int, ...], *, known: bool
) -> None:
    times = (49, 56, 60)
    looks = [look("n2", 2, 50, mark=2)]
    looks += [look("n3", end, at) for end, at in zip(ends, times, strict=True)]
    final = {**state("n3", 1), "high_watermark": 1, "high_watermark_source": "checkpoint"}
    on = group(STOPPED, replica_states=[*looks, final])
    assert stop_text(on, "n3", 1).startswith("clean stop, before") is known
    killed = replace(on, facts=facts(milestones=STOPPED.milestones[:-1]))
    assert stop_text(killed, "n3", 1) == "stop, or afterwards"


def test_what_no_follower_ever_had_its_leader_acknowledged_without_them() -> None:
    never = tuple(look(node, 1, at) for node in ("n2", "n3") for at in (4, 60))
    head = "n2 and n3 never reported a log end offset above it"
    told = cause(under_replicated.CHECKER, scarce(*never))
    assert told == f"{head}; n1, leader of epoch 0, acknowledged it without n2 and n3"
    assert isinstance(told, Proved)
    # Who was killed meanwhile may have lost it; looks at one side only tell nothing, either.
    lives = (*never[:3], {**never[3], "incarnation": 2})
    told = cause(under_replicated.CHECKER, scarce(*lives))
    assert told == f"{head}; n1, leader of epoch 0, acknowledged it without n2"
    for once in (never[::2], never[1::2], (*never[::2], look("n2", 1, 6), look("n3", 1, 6))):
        told = cause(under_replicated.CHECKER, scarce(*once))
        assert told == head
        assert not isinstance(told, Proved)
    isrs = [metadata("n1", 1, 0, at, 1, 2) for at in (4, 6)]
    on = scarce(*never, led=(*isrs, announced(1, 0, 2, 7), announced(1, 0, 2, 9)))
    assert cause(under_replicated.CHECKER, on).endswith(
        " acknowledged it without n2 and n3, with the ISR [1, 2], and announced the high"
        " watermark 2 at 7.000 s"
    )
    own = [look(node, 1, at) for node in ("n1", "n2") for at in (4, 60)]
    records = [*log("n3", (0, A), (0, B)), *log("n1", (0, A)), *log("n2", (0, A))]
    led = [{**leads(1, 0, at=at * S), "incarnation": 0} for at in range(1, 9)]
    led += [{**leads(3, 1, at=50 * S), "incarnation": 0}, metadata("n3", 1, 0, 9)]
    odd = group(
        STOPPED, sends=[ack(B, 1, at=5 * S)], leadership=led, replica_records=records,
        replica_states=own,
    )  # fmt: skip
    assert cause(under_replicated.CHECKER, odd).endswith(
        "; n1, leader of epoch 0, acknowledged it, although its own log did not have it"
    )
    changed = scarce(*never, led=(isrs[0], metadata("n1", 1, 0, 6, 1)))
    assert cause(under_replicated.CHECKER, changed).endswith("acknowledged it without n2 and n3")
    assert cause(under_replicated.CHECKER, scarce()) == (
        "the run's record does not show whether n2 and n3 ever had the record"
    )


def test_who_was_told_to_truncate_may_have_had_it_between_two_looks() -> None:
    never = [look(node, 1, at) for node in ("n2", "n3") for at in (4, 60)]
    told = cause(under_replicated.CHECKER, scarce(*never, truncations=(cut("n2", 1),)))
    assert told == (
        "n2 and n3 never reported a log end offset above it; n2 truncated its log from offset 1"
        " on (told to); n1, leader of epoch 0, acknowledged it without n3"
    )
    both = (cut("n2", 1), cut("n3", 1))
    told = cause(under_replicated.CHECKER, scarce(*never, truncations=both))
    assert "acknowledged it" not in told
    assert not isinstance(told, Proved)
    above = cause(under_replicated.CHECKER, scarce(*never, truncations=(cut("n2", 2),)))
    assert above.endswith("acknowledged it without n2 and n3")


def test_what_fell_in_between_is_told_with_both_looks() -> None:
    fell = (look("n2", 2, 6), look("n2", 1, 7), look("n3", 1, 61))
    assert "n2's log end offset was 2 at 6.000 s, then 1 at 7.000 s, but" in cause(
        under_replicated.CHECKER, scarce(*fell)
    )
    cut_then = scarce(*fell, truncations=(cut("n2", 1, at=7 * S),))
    assert "n2 truncated its log from offset 1 on (told to)" in cause(
        under_replicated.CHECKER, cut_then
    )
    older = scarce(*fell, truncations=(cut("n2", 1, at=5 * S),))
    assert "truncated" not in cause(under_replicated.CHECKER, older)


def short(*states: Row, truncations: tuple[Row, ...] = ()) -> Group:
    held = [*log("n1", (0, A), (0, B)), *log("n2", (0, A), (0, B)), *log("n3", (0, A))]
    told = {
        "source": "metadata",
        "observer": "n1",
        "leader": 1,
        "leader_epoch": 0,
        "isr": [1, 2, 3],
        "incarnation": 0,
        "asked_ns": 90 * S,
        "observed_ns": 90 * S + 1,
    }
    return group(
        STOPPED, leadership=[leads(1, 0), {**leads(1, 0, at=8 * S), "high_watermark": 2}, told],
        replica_records=held, replica_states=[*states], truncations=[*truncations],
    )  # fmt: skip


def test_a_short_log_went_in_the_stop_or_stood_still() -> None:
    assert cause(under_replicated.CHECKER, short(look("n3", 2, 91))) == (
        "n3's log end offset was still 2 at 91.000 s, and no truncation of it was recorded since:"
        " n3 lost the end of its log in its clean stop, or afterwards; n1 and n2 hold all of it"
    )
    logged = short(look("n3", 2, 91), truncations=(cut("n3", 1),))
    assert "no truncation" not in cause(under_replicated.CHECKER, logged)
    assert cause(under_replicated.CHECKER, short(look("n3", 1, 9), look("n3", 1, 91))) == (
        "n3's log end offset stayed at 1 from 9.000 s to 91.000 s: it stopped copying, but its"
        " leader kept it in the ISR; n1 and n2 hold all of it"
    )
    longer = short(look("n3", 1, 9), look("n3", 2, 10), look("n3", 1, 91))
    assert "stayed at" not in cause(under_replicated.CHECKER, longer)
    assert cause(under_replicated.CHECKER, short(look("n3", 1, 9))) == (
        "the run's record does not show whether n3 ever had the end of the log; n1 and n2 hold"
        " all of it"
    )


# What a leader had announced


def truncated(
    records: list[Row], *states: Row, led: list[Row], truncations: tuple[Row, ...] = ()
) -> Group:
    announced = {**leads(1, 0, at=4 * S), "high_watermark": 2}
    return group(
        STOPPED, leadership=[announced, *led], replica_records=records, replica_states=[*states],
        truncations=[*truncations],
    )  # fmt: skip


def test_a_leader_that_stopped_without_what_it_had_announced() -> None:
    held = [*log("n1", (0, A)), *log("n2", (0, A), (0, B)), *log("n3", (0, A), (0, B))]
    on = truncated(held, look("n1", 2, 60), led=[])
    assert cause(committed_truncation.CHECKER, on) == (
        "n1's log end offset was still 2 at 60.000 s, and no truncation of it was recorded since:"
        " n1 lost the end of its log in its clean stop, or afterwards; n2 and n3 hold all of them"
    )
    lines = {**state("n1", 1), "epochs": [{"epoch": 0, "start_offset": 0},
                                          {"epoch": 1, "start_offset": 2}]}  # fmt: skip
    marked = truncated(held, look("n1", 2, 60), lines, led=[])
    assert "its checkpoint still has epoch 1 from offset 2 on" in cause(
        committed_truncation.CHECKER, marked
    )
    lines["epochs"][1]["start_offset"] = 1
    fits = truncated(held, look("n1", 2, 60), lines, led=[])
    assert "checkpoint" not in cause(committed_truncation.CHECKER, fits)


def test_a_leader_whose_own_log_had_not_what_it_announced() -> None:
    held = [*log("n1", (0, A)), *log("n2", (0, A), (0, B)), *log("n3", (0, A), (0, B))]
    on = truncated(held, look("n1", 1, 3), look("n1", 1, 60), led=[])
    assert cause(committed_truncation.CHECKER, on) == (
        "n1's log end offset was 1 from 3.000 s to 60.000 s; n2 and n3 hold all of them"
    )
    once = truncated(held, look("n1", 1, 3), led=[])
    assert cause(committed_truncation.CHECKER, once) == "n2 and n3 hold all of them"


def test_the_next_leader_is_told_with_where_its_log_ended() -> None:
    held = [row for node in NODES for row in log(node, (0, A), (3, C))]
    led = [leads(2, 3, at=9 * S), written(1, 0, 5, 1, 2), written(2, 3, 6, 2, 1)]
    on = truncated(held, look("n2", 1, 4.2), led=led, truncations=(cut("n1", 1),))
    told = committed_truncation.CHECKER.why(on, committed_truncation.CHECKER.check(on).anomalies[0])
    assert told.endswith(
        "; n2 was in the ISR and elected cleanly; its log end offset was 1 at 4.200 s"
    )


def test_another_leader_wrote_where_it_had_announced() -> None:
    held = [*log("n1", (0, A), (3, C)), *log("n2", (0, A), (3, C))]
    led = elected_uncleanly()
    on = truncated(held, led=led, truncations=(cut("n1", 1),))
    assert cause(committed_truncation.CHECKER, on) == (
        "n2, leader of epoch 3 by an unclean election, wrote other records there, and n1 truncated"
        " its log from offset 1 on (told to)"
    )
    none = cause(committed_truncation.CHECKER, truncated(held, led=led))
    assert none.endswith("wrote other records there")


def test_a_truncation_below_what_is_lacking_may_be_an_older_one() -> None:
    held = [*log("n1", (0, A)), *log("n2", (0, A), (0, B))]
    lower, there = (
        cause(committed_truncation.CHECKER, truncated(held, led=[], truncations=(cut("n1", at),)))
        for at in (0, 1)
    )
    kept = "n2 holds all of them"
    assert lower == (
        f"n1 truncated its log from offset 0 on (told to), which may have dropped them; {kept}"
    )
    assert there == f"n1 truncated its log from offset 1 on (told to); {kept}"
    assert isinstance(there, Proved)
    assert not isinstance(lower, Proved)


@pytest.mark.parametrize(("asked", "kept"), [((0, 2), False), ((1, 2), True), ((0, 3), True)])
def test_a_truncation_of_before_it_led_in_a_later_epoch_is_not_named(
    asked: tuple[int, int], *, kept: bool
) -> None:
    """n1 led in epoch 1 and dropped what stood at 3; n2 has a record of epoch 1, and n3 none."""
    epoch, leader = asked
    alike = ((0, A), (0, B), (1, A + 5), (3, C))
    held = [*log("n1", *alike), *log("n2", *alike), *log("n3", (0, A), (0, B), (3, C))]
    early = {**cut("n1", 1), "reason": f"follower of broker {leader}: epoch {epoch} ends at"}
    led = [{**leads(1, 1, at=5 * S), "high_watermark": 4}, *elected_uncleanly()]
    on = truncated(held, led=led, truncations=(early, cut("n1", 3)))
    assert ("follower of" in causes(committed_truncation.CHECKER, on)[0]) is kept


def test_a_fault_of_its_disk_is_named_first() -> None:
    loss = DiskLoss(
        nodes=frozenset({"n1"}), topic="log-0", partition=0, end_after=1, end_before=2,
        until_ns=9 * S, excuse="power-loss",
    )  # fmt: skip
    held = [*log("n1", (0, A)), *log("n2", (0, A), (0, B))]
    on = truncated(held, look("n1", 2, 5), led=[])
    on = replace(on, facts=replace(STOPPED, disk_losses=(loss,)))
    assert cause(committed_truncation.CHECKER, on) == "n1 had lost power; n2 holds all of them"


# An end that went back


def test_an_end_that_went_back_once() -> None:
    fell = [look("n1", 9, 1, mark=8), look("n1", 3, 2, mark=3), look("n1", 9, 3, mark=9)]
    on = group(replica_states=fell)
    assert cause(log_end_regression.CHECKER, on) == (
        "n1 was not restarted in between and recorded no truncation, and its log ended at 9 at"
        " 3.000 s: it dropped records that it had reported as committed and fetched them again,"
        " or it reported a wrong log end; the run's record does not show which"
    )
    cuts = [cut("n1", int(fell[1]["log_end_offset"]))]
    once = cause(log_end_regression.CHECKER, group(replica_states=fell, truncations=cuts))
    assert once.endswith("between 1.000 s and 2.000 s")
    again = group(replica_states=fell, truncations=[*cuts, *cuts])
    assert cause(log_end_regression.CHECKER, again).endswith("at a time that is not recorded")
    restarted = [fell[0], *({**each, "incarnation": 2} for each in fell[1:])]
    late = cause(log_end_regression.CHECKER, group(replica_states=restarted, truncations=cuts))
    assert late.endswith("at a time that is not recorded")
    assert cause(log_end_regression.CHECKER, group(replica_states=restarted)).startswith(
        "n1 was restarted in between"
    )


def test_who_lost_an_end_in_its_stop_is_named_and_who_has_it_still() -> None:
    rows = [*log("n1", (0, A), (0, B)), *log("n2", (0, A), (0, B)), *log("n3", (0, A))]
    states = [look("n3", 2, 91, mark=2), *(state(node, 2) for node in ("n1", "n2")), state("n3", 1)]
    on = group(STOPPED, leadership=[leads(3, 0)], replica_records=rows, replica_states=states)
    told = cause(log_end_regression.CHECKER, on)
    assert told.startswith(
        "n3's log end offset was still 2 at 91.000 s, and no truncation of it was"
    )
    assert told.endswith("; n1 and n2 still reach offset 2")
    assert isinstance(told, Proved)


def test_an_end_that_was_cut_for_an_unclean_leader() -> None:
    fell = [look("n1", 9, 1, mark=8), look("n1", 3, 9, mark=3)]
    records = [*log("n2", *[(0, A)] * 3, (3, B)), *log("n1", *[(0, A)] * 3, (3, B))]
    for from_offset, heard_s, follows in ((3, 2, True), (2, 2, False), (3, -6, False)):
        knew = metadata("n1", 1, 0, heard_s) if heard_s > 0 else metadata("n1", 2, 3, 1)
        on = group(
            leadership=[*elected_uncleanly(), knew], replica_states=fell, replica_records=records,
            truncations=[cut("n1", from_offset)],
        )  # fmt: skip
        told = cause(log_end_regression.CHECKER, on)
        assert ("to follow n2, leader of epoch 3 by an unclean election" in told) is follows
        untimed = "between 1.000 s and 9.000 s" if from_offset == 3 else "that is not recorded"
        assert told.endswith(untimed) is not follows


def test_who_had_heard_of_an_unclean_leader_had_followed_it() -> None:
    fell = [look("n1", 9, 5, mark=8), look("n1", 3, 9, mark=3)]
    records = [*log("n2", *[(0, A)] * 3, (3, B)), *log("n1", *[(0, A)] * 3, (3, B))]
    for answers in ([(0, 4), (3, 4.5)], [(3, 4.5), (0, 6)], [(0, 4.5)]):
        own = [metadata("n1", 2, epoch, at_s) for epoch, at_s in answers]
        on = group(
            leadership=[*elected_uncleanly(), *own], replica_states=fell,
            replica_records=records, truncations=[cut("n1", 3)],
        )  # fmt: skip
        assert "to follow" not in cause(log_end_regression.CHECKER, on), answers


def test_a_copy_of_a_step_is_not_set_against_what_came_later() -> None:
    records = [{**each, "snapshot": "step-01"} for each in OLDER]
    marks = [{**state(node, 3, 3), "snapshot": "step-01"} for node in NODES]
    on = group(leadership=elected_uncleanly(), replica_records=records,
               replica_states=[*marks, look("n3", 0, 9)])  # fmt: skip
    assert causes(log_divergence.CHECKER, on)[0].endswith(
        "n3 still had the older record of epoch 0 then"
    )


def test_a_follower_of_before_epochs_cut_at_its_own_high_watermark() -> None:
    held = [*log("n1", (-1, A)), *log("n2", (-1, A), (-1, B))]
    told = cause(committed_truncation.CHECKER, truncated(held, led=[], truncations=(cut("n1", 1),)))
    assert told.startswith("n1 truncated its log from offset 1 on (told to), as followers did")


# A beginning that went


def started(*looks: tuple[str, int, float], leader: int = 2) -> Group:
    states = [look(node, 9, at_s, start=start) for node, start, at_s in looks]
    led = [leads(leader, 0, at=at * S) for at in range(1, 9)]
    return group(replica_states=states, leadership=led)


def test_a_follower_whose_leader_kept_its_start_deleted_by_itself() -> None:
    on = started(("n1", 0, 2), ("n1", 5, 3), ("n2", 0, 2), ("n2", 0, 4))
    assert cause(log_start_moved.CHECKER, on) == (
        "its leader n2 was never observed with a log start above 0: n1 deleted its records by"
        " itself between 2.000 s and 3.000 s, although no setting of the plan asks for this"
    )


def test_without_the_leaders_own_start_no_follower_is_blamed() -> None:
    unknown = (
        "no setting of the plan asks for this; the run's record does not show which replica"
        " was first"
    )
    unseen = (("n1", 0, 2), ("n1", 5, 3), ("n3", 0, 2), ("n3", 0, 4))
    assert cause(log_start_moved.CHECKER, started(*unseen)) == unknown
    before = (*unseen, ("n2", 0, 2))
    assert cause(log_start_moved.CHECKER, started(*before)) == unknown
    all_seen = group(replica_states=[
        look(node, 9, at_s, start=start) for node, start, at_s in (*before, ("n2", 0, 4))
    ])  # fmt: skip
    assert cause(log_start_moved.CHECKER, all_seen).startswith(
        "n2 and n3 were never observed with a log start above 0: n1 deleted its records by itself"
    )


def test_a_leader_that_moved_first_is_named_of_its_followers_too() -> None:
    follower, leader = causes(
        log_start_moved.CHECKER,
        started(("n1", 0, 2), ("n1", 5, 4), ("n2", 0, 2), ("n2", 5, 3)),
    )
    assert follower == (
        "n2, the leader, already had that log start at 3.000 s, and n1 adopted it: n2 deleted the"
        " records, although no setting of the plan asks for this"
    )
    assert leader == (
        "n2 led in epoch 0 and deleted the records between 2.000 s and 3.000 s, although no"
        " setting of the plan asks for this; n1 had this log start later"
    )


def test_a_leader_that_took_its_start_over_did_not_delete_what_lay_below() -> None:
    """n2 led till 10 s and moved its start at 9 s; n1, which led then, had it from there."""
    unknown = (
        "no setting of the plan asks for this; the run's record does not show which replica"
        " was first"
    )
    looks = [look("n2", 9, 8), look("n2", 9, 9, start=5), look("n1", 9, 10.8),
             look("n1", 9, 11.5, start=5)]  # fmt: skip
    led = [*(leads(2, 0, at=at * S) for at in (1, 5, 9)),
           *(leads(1, 1, at=at * S) for at in (10, 11, 12)), metadata("n2", 1, 1, 10),
           metadata("n1", 2, 0, 9.8)]  # fmt: skip
    told, first = causes(log_start_moved.CHECKER, group(replica_states=looks, leadership=led))
    assert told == unknown
    assert first.startswith("n2 led in epoch 0 and deleted the records between 8.000 s and 9.000 s")
    # A look is noted late: n2 may have led when n1 was measured to start at 0.
    alone = [*looks[2:], look("n3", 9, 12)]
    assert cause(log_start_moved.CHECKER, group(replica_states=alone, leadership=led)) == unknown
    later = [look("n1", 9, 13.2), look("n1", 9, 13.9, start=5)]
    went_on = [*led, *(leads(1, 1, at=at * S) for at in (13, 14, 15))]
    assert cause(
        log_start_moved.CHECKER, group(replica_states=later, leadership=went_on)
    ).startswith("n1 led in epoch 1 and deleted the records between 13.200 s and 13.900 s")


def test_a_follower_that_was_seen_before_its_leader_is_not_blamed() -> None:
    told, _ = causes(
        log_start_moved.CHECKER,
        started(("n1", 0, 2), ("n1", 5, 3), ("n2", 0, 2), ("n2", 5, 4), ("n3", 0, 4)),
    )
    assert "the first of them is unknown" in told
    assert not isinstance(told, Proved)


def test_a_log_of_which_nothing_is_left_went_as_a_whole() -> None:
    empty = {"snapshot": "final", "log_start_offset": 0, "log_end_offset": 0, "whole": True}
    gone = group(
        STOPPED, sends=[ack(B, 1, at=5 * S)], replica_records=[*log("n1", (0, A), (0, B))],
        leadership=[{**leads(1, 0, at=at * S), "incarnation": 0} for at in range(1, 9)],
        replica_states=[*ALL_SEEN, *({**empty, "node": node} for node in ("n2", "n3"))],
    )  # fmt: skip
    told = cause(under_replicated.CHECKER, gone)
    assert told.endswith("so the whole log was lost in the clean stop, or afterwards")
