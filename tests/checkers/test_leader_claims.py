"""What is told of two leaders in one epoch: who, when, and at which offset."""

from checkers import two_leaders
from tests.checkers.partition_rows import A, B, C, S, elected, facts, found, group, leads, log

CHECKER = two_leaders.CHECKER


def test_each_claim_of_the_epoch_and_no_other_is_a_witness() -> None:
    claims = [
        leads(0, 4, at=2 * S), leads(0, 4, at=3 * S), leads(0, 3), leads(0, 5, at=9 * S),
        leads(2, 4, at=4 * S), leads(2, 6, at=8 * S), leads(2, 2, at=S // 2),
    ]  # fmt: skip
    result = found(CHECKER, group(leadership=claims))
    (anomaly,) = result.anomalies
    assert (result.rows, anomaly.offset) == (2, -1)
    assert anomaly.evidence == {
        "epoch": 4,
        "source": "list-offsets",
        "leaders": ["n0", "n2"],
        "offset": None,
        "witnesses": [
            "n0: 2 times, from 2.000 s to 3.000 s",
            "n2: once, at 4.000 s",
        ],
    }
    assert anomaly.sentence == (
        "n0 and n2 both answered as leader of log-0-0 in epoch 4: n0: 2 times, from 2.000 s"
        " to 3.000 s; n2: once, at 4.000 s"
    )


def test_the_first_record_of_the_metadata_log_counts_and_a_place_that_is_not_known_does_not() -> (
    None
):
    first = [elected(1, 4, 0), elected(2, 4, 1)]
    (anomaly,) = found(CHECKER, group(leadership=first)).anomalies
    assert anomaly.evidence["source"] == "metadata-log"
    placeless = [{**row, "log_offset": None} for row in first]
    assert found(CHECKER, group(leadership=placeless)).rows == 0
    unknown = facts(quorum_high_watermark=None)
    assert found(CHECKER, group(unknown, leadership=first)).rows == 0


def test_records_that_differ_are_told_by_epoch_at_their_first_offset() -> None:
    on = group(
        replica_records=[
            *log("n1", (3, A), (3, B), (3, C), (4, A), (4, B)),
            *log("n2", (3, A), (3, C), (3, A), (4, A), (4, C)),
        ]
    )
    result = found(CHECKER, on)
    assert result.rows == 5
    assert [(each.evidence["epoch"], each.offset) for each in result.anomalies] == [(3, 1), (4, 4)]
    first = result.anomalies[0]
    assert first.evidence["offset"] == 1
    assert first.evidence["witnesses"] == [f"n1: value {B} of epoch 3", f"n2: value {C} of epoch 3"]
    assert first.sentence.startswith(
        "n1 and n2 hold different records of epoch 3 at offset 1 of log-0-0: n1: value"
    )


def test_epoch_zero_has_one_leader_too() -> None:
    assert len(found(CHECKER, group(leadership=[leads(1, 0), leads(2, 0)])).anomalies) == 1
    records = group(replica_records=[*log("n1", (0, A)), *log("n2", (0, B))])
    assert len(found(CHECKER, records).anomalies) == 1
