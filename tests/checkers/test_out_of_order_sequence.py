"""out-of-order-sequence: the numbers of idempotent producers along the logs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.facts import RunFacts
from checkers.group import Group
from checkers.out_of_order_sequence import CHECKER, NAME
from results.record.verdict import Evidence
from tests.broken.answers import STORED, write_stranger
from tests.broken.brokers import followers_of
from tests.broken.corpus import CALM, Spot, broken, innocent
from tests.broken.record import Record, Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    ack,
    facts,
    found,
    group,
    leads,
    log,
    reason,
    reasons,
    sentences,
)
from tests.checkers.test_disk_losses import cut
from tests.checkers.test_reused_epochs import LED, LOST, NOT_CONFIRMED, about, labels

LAST = (1 << 31) - 1
"""The highest sequence number; behind it comes 0."""
Numbers = tuple[tuple[int, int, int], ...]
"""Producer id, producer epoch and sequence of each record, by offset."""
WHYS_OF: list[tuple[str, Evidence, str]] = [
    (NAME, {"sequence": 7, "sequence_before": 4}, "its log lacks sequences 5 to 6"),
    (
        NAME,
        {"sequence": 2, "sequence_before": 4},
        "accepted a sequence below one that its log already has",
    ),
]
IN_ORDER: Numbers = ((1, 0, 0), (1, 0, 1))
EXCUSED_BY = [(NAME, {"reused-epoch"})]
ROWS_OF = [
    (
        CHECKER,
        group(sends=[ack(A, 0)], replica_records=log("n1", (0, A)), leadership=[leads(1, 0)]),
        "no producer wrote two records in one epoch",
        group(sends=[ack(A, 0)], replica_records=log("n1", (0, A), (0, B))),
        1,
    )
]


def of(*logs: Numbers, about: RunFacts | None = None, without: int = -1) -> Group:
    """Logs of n1, n2, ..., one of whose offsets could not be read."""
    rows = [
        {**row, "producer_id": each[0], "producer_epoch": each[1], "sequence": each[2]}
        for node, numbers in enumerate(logs, start=1)
        for row, each in zip(
            log(f"n{node}", *((0, A + at) for at in range(len(numbers)))), numbers, strict=True
        )
        if row["offset"] != without
    ]
    return group(about, sends=[ack(A, 0)], replica_records=rows, leadership=[leads(1, 0)])


@pytest.mark.parametrize(
    "numbers",
    [
        IN_ORDER,
        ((1, 0, 5), (1, 0, 6)),  # What came before is below the log's start.
        ((1, 0, 0), (2, 0, 0), (1, 0, 1), (2, 0, 1)),  # Two producers take turns.
        ((1, 0, 0), (1, 1, 0), (1, 1, 1)),  # A new epoch begins at 0.
        ((1, 0, LAST), (1, 0, 0)),
        ((1, 0, 0), (1, 0, -1), (1, 0, 1)),  # A marker has no sequence.
        ((-1, -1, -1), (-1, -1, -1)),  # Nor have producers without idempotence.
    ],
)
def test_numbers_that_go_on_are_right(numbers: Numbers) -> None:
    assert sentences(CHECKER, of(numbers, numbers)) == []


def test_a_number_that_is_left_out_was_dropped_or_let_past() -> None:
    numbers = ((1, 0, 0), (1, 0, 1), (1, 0, 3))
    on = of(numbers, numbers)
    (sentence,) = sentences(CHECKER, on)
    assert sentence == (
        "in the log of n1 and n2, log-0-0 has sequence 3 of producer 1 (epoch 0) at offset 2,"
        " directly after its sequence 1 at offset 1"
    )
    assert reason(CHECKER, on) == (
        "n1, leader of epoch 0, stored the record although its log lacks sequence 2 before it"
    )
    assert found(CHECKER, on).rows == 4


def test_a_number_that_comes_again_was_written_twice() -> None:
    on = of(((1, 0, 4), (2, 0, 0), (1, 0, 4)))
    assert reason(CHECKER, on) == (
        "n1, leader of epoch 0, had sequence 4 at offset 0, and accepted it again as a new record"
    )


def test_a_copy_that_differs_from_the_others_is_wrong() -> None:
    on = of(IN_ORDER, ((1, 0, 0), (1, 0, 7)), IN_ORDER)
    assert reason(CHECKER, on) == (
        "n1 and n3 have a different record there, so the copy of n2 is wrong"
    )


def test_offsets_that_could_not_be_read_break_nothing() -> None:
    numbers = ((1, 0, 0), (1, 0, 1), (1, 0, 2))
    on = of(numbers, without=1)
    assert (sentences(CHECKER, on), found(CHECKER, on).rows) == ([], 0)


def test_it_does_not_apply_without_idempotence_or_where_the_cleaner_takes_records() -> None:
    assert CHECKER.applies(facts())
    for plan in (
        {"idempotence": False},
        {"broker": {"log.cleanup.policy": "compact"}},
        {"broker": {"producer.id.expiration.ms": "1000"}},
        {"node": {"n2": {"transactional.id.expiration.ms": "1000"}}},
    ):
        assert not CHECKER.applies(facts(plan=plan))


@given(
    writers=st.lists(st.integers(1, 3), min_size=2, max_size=20),
    at=st.integers(0, 19),
    by=st.integers(1, 5),
)
def test_a_faithful_log_is_accepted_and_a_planted_gap_is_found(
    writers: list[int], at: int, by: int
) -> None:
    numbers = [(writer, 0, writers[:place].count(writer)) for place, writer in enumerate(writers)]
    assert sentences(CHECKER, of(tuple(numbers))) == []
    at %= len(numbers)
    writer = numbers[at][0]
    broken_at = [
        (one, epoch, sequence + by * (one == writer and place >= at))
        for place, (one, epoch, sequence) in enumerate(numbers)
    ]
    first = numbers[at][2] == 0
    offsets = [each.offset for each in found(CHECKER, of(tuple(broken_at))).anomalies]
    assert offsets == ([] if first else [at])


def by_definition(numbers: Numbers) -> list[int]:
    """Return the offsets at which a producer's numbers do not go on, in plain Python."""
    wrong, last = [], dict[tuple[int, int], int]()
    for offset, (producer, epoch, sequence) in enumerate(numbers):
        if producer < 0 or sequence < 0:
            continue
        before = last.get((producer, epoch))
        if before is not None and sequence != (0 if before == LAST else before + 1):
            wrong.append(offset)
        last[producer, epoch] = sequence
    return wrong


@given(
    st.lists(
        st.tuples(
            st.integers(-1, 1),
            st.integers(0, 1),
            st.sampled_from([-1, 0, 1, 2, 3, LAST - 1, LAST]),
        ),
        max_size=12,
    )
)
def test_the_kernel_finds_what_the_definition_says(numbers: list[tuple[int, int, int]]) -> None:
    offsets = [each.offset for each in found(CHECKER, of(tuple(numbers))).anomalies]
    assert offsets == by_definition(tuple(numbers))


def of_a_producer(*logs: tuple[tuple[int, int, int], ...]) -> list[Row]:
    """Logs of n1, n2, ...: value, producer and sequence of each record, all of epoch 3."""
    return [
        {**row, "producer_id": producer, "producer_epoch": 0, "sequence": sequence}
        for node, rows in enumerate(logs, start=1)
        for row, (_, producer, sequence) in zip(
            log(f"n{node}", *((3, value) for value, _, _ in rows)), rows, strict=True
        )
    ]


@pytest.mark.parametrize("behind", [(), ((A + 3, 2, 1),)])
def test_a_copy_that_goes_on_behind_what_its_leader_lost_has_numbers_of_both(
    behind: tuple[tuple[int, int, int], ...],
) -> None:
    # n1 lost B, took another producer's record in its place, and then B once more.
    leader = ((A, 1, 0), (C, 2, 0), *behind, (B, 1, 1))
    logs = of_a_producer(leader, ((A, 1, 0), (B, 1, 1), *leader[2:]))
    assert sentences(CHECKER, of_records(logs)) == []
    # Without the leader's own log nothing but the loss tells that there were two histories.
    records = [row for row in logs if row["node"] != "n1"]
    assert labels(CHECKER, about(LOST), LED, records=records) == (("reused-epoch",), ())
    assert labels(CHECKER, about(NOT_CONFIRMED), LED, records=records) == ((), ("known-losses",))
    assert labels(CHECKER, about(LOST, system="kafka:4.3.1"), LED, records=records) == ((), ())
    assert labels(CHECKER, about(cut("n2", after=1, before=2)), LED, records=records) == ((), ())
    elsewhere = cut("n1", after=5, before=6)
    assert labels(CHECKER, about(elsewhere), LED, records=records) == ((), ())


def of_records(records: list[Row], *, leader: int = 1, known: RunFacts | None = None) -> Group:
    """All copies of a partition, and who led in epoch 3."""
    return group(known, sends=[ack(A, 0)], replica_records=records, leadership=[leads(leader, 3)])


def test_a_copy_of_two_histories_is_a_divergence_and_no_leaders_work() -> None:
    # Before Kafka 2.0: n2 cut nothing where n1, its next leader, had gone on otherwise (KIP-279).
    history = ((A, 1, 0), (C, 2, 0), (B, 1, 1))
    mixed = ((A, 1, 0), (B, 1, 1), (B, 1, 1))
    assert sentences(CHECKER, of_records(of_a_producer(history, mixed))) == []
    assert sentences(CHECKER, of_records(of_a_producer(history, mixed, mixed))) == []


def test_what_the_leader_itself_has_stands_whatever_copies_hold() -> None:
    history, otherwise = ((A, 1, 0), (C, 2, 0), (B, 1, 1)), ((A, 1, 0), (B, 1, 1), (B, 1, 1))
    (sentence,) = sentences(CHECKER, of_records(of_a_producer(otherwise, history)))
    assert sentence.startswith("in the log of n1, ")


def test_a_leader_that_lost_its_disk_has_a_copy_like_any_other() -> None:
    history, mixed = ((A, 1, 0), (C, 2, 0), (B, 1, 1)), ((A, 1, 0), (B, 1, 1), (B, 1, 1))
    records = of_a_producer(mixed, mixed, history)
    assert len(sentences(CHECKER, of_records(records))) == 1
    for lost, count in (("n1", 0), ("n2", 1)):
        on = of_records(records, known=about(cut(lost, after=0, before=3)))
        assert len(sentences(CHECKER, on)) == count
    later = of_records(records, known=about(cut("n1", after=3, before=4)))
    assert len(sentences(CHECKER, later)) == 1


def test_copies_that_agree_on_what_came_before_are_one_history() -> None:
    skips, follows = ((A, 1, 0), (B, 1, 3)), ((A, 1, 0), (B, 1, 1))
    assert len(sentences(CHECKER, of_records(of_a_producer(follows, skips)))) == 1
    # And one that begins behind the record before knows nothing of it.
    late = [
        row for row in of_a_producer(skips, skips, skips) if row["offset"] or row["node"] == "n2"
    ]
    assert len(sentences(CHECKER, of_records(late))) == 1


def test_what_is_out_of_sequence_without_a_loss_between_is_not_excused() -> None:
    rows = ((A, 1, 0), (B, 1, 1), (C, 1, 3))
    records = of_a_producer(rows, rows)
    before = about(cut("n1", after=0, before=1))
    assert labels(CHECKER, before, LED, records=records) == ((), ())


def _written(record: Record, spot: Spot) -> list[Row]:
    """Return all copies of what the producer of the spot's message wrote in its partition."""
    (like, *_) = record.rows("replica_records", offset=spot.offset, **spot.place)
    whose = {name: like[name] for name in ("producer_id", "producer_epoch")}
    return record.rows("replica_records", **whose, **spot.place)


@broken(NAME, row="sequences", base="log", says="directly after its sequence")
def a_leader_takes_a_batch_that_does_not_follow_on(record: Record, spot: Spot) -> None:
    """One of its producer's records before was dropped; nobody had an answer to that one."""
    for row in _written(record, spot):
        row["sequence"] += row["offset"] >= spot.offset


@broken(NAME, row="sequences", base="log")
def one_copy_has_another_sequence(record: Record, spot: Spot) -> None:
    for row in _written(record, spot):
        row["sequence"] += row["offset"] == spot.offset and row["node"] == "n2"


@innocent(base="log")
def a_producers_numbers_begin_again_at_0(record: Record, spot: Spot) -> None:
    """Behind the highest sequence number comes 0 (KIP-98)."""
    rows = _written(record, spot)
    number = next(row["sequence"] for row in rows if row["offset"] == spot.offset)
    for row in rows:
        row["sequence"] = (row["sequence"] - number) % (1 << 31)


@innocent(base="log")
def a_producer_goes_on_in_a_new_epoch(record: Record, spot: Spot) -> None:
    """Numbers begin at 0 in each epoch; librdkafka begins one after some errors (KIP-360)."""
    rows = _written(record, spot)
    number = next(row["sequence"] for row in rows if row["offset"] == spot.offset)
    for row in rows:
        if row["offset"] >= spot.offset:
            row.update(sequence=row["sequence"] - number, producer_epoch=row["producer_epoch"] + 1)


@broken("log-divergence", row="sequences", base="log", moments=(CALM, "isolate"))
def a_copy_goes_on_behind_what_it_should_have_cut_off(record: Record, spot: Spot) -> None:
    """It kept a message where its leader has another, and has it again where that one wrote it."""
    node = followers_of(record, spot)[0]
    write_stranger(record, spot, 1 << 40)
    kept, again = (
        record.rows("replica_records", node=node, offset=spot.offset + by, **spot.place)[0]
        for by in (1, 2)
    )
    kept |= {name: again[name] for name in STORED}


@innocent(base="log")
def a_broker_that_has_forgotten_a_producer_takes_any_number(record: Record, spot: Spot) -> None:
    """After a loss of power it knows who wrote a while ago no more, and takes what comes next."""
    record.plan["broker"] = {"producer.id.expiration.ms": "1000"}
    for row in _written(record, spot):
        row["sequence"] += 3 * (row["offset"] > spot.offset)


def test_a_log_with_the_same_record_does_not_contradict_the_copy() -> None:
    first = log("n1", (0, A), (0, B), (0, C))
    numbers = ((1, 0, 0), (1, 0, 1), (1, 0, 3))
    rows = [
        {**row, "producer_id": at[0], "producer_epoch": at[1], "sequence": at[2]}
        for row, at in zip(first, numbers, strict=True)
    ]
    late = [{**rows[-1], "node": "n2"}]  # The log of n2 starts at the later record.
    on = group(sends=[ack(A, 0)], replica_records=[*rows, *late], leadership=[leads(1, 0)])
    assert reason(CHECKER, on) == (
        "n1, leader of epoch 0, stored the record although its log lacks sequence 2 before it"
    )


def test_a_record_of_an_older_epoch_does_not_contradict_the_copy() -> None:
    numbers = ((1, 0, 0), (1, 0, 1), (1, 0, 3))
    rows = [
        {**row, "producer_id": at[0], "producer_epoch": at[1], "sequence": at[2]}
        for row, at in zip(log("n1", (4, A), (4, B), (4, C)), numbers, strict=True)
    ]
    stale = [{**log("n2", (3, B), start=2)[0], "producer_id": 2, "sequence": 0}]
    on = group(sends=[ack(A, 0)], replica_records=[*rows, *stale], leadership=[leads(1, 4)])
    (told,) = [each for each in reasons(CHECKER, on) if "sequence 2" in each]
    assert told.startswith("n1, leader of epoch 4, stored the record although its log lacks")
