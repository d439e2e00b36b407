"""What a claim is, and what the evidence says of it: what mutants of `two_leaders` got past."""

import pytest

from checkers import two_leaders
from checkers.facts import RunFacts
from results.record.verdict import Anomaly
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    elected,
    facts,
    found,
    group,
    leads,
    log,
    whole_run,
)


def told(on: RunFacts | None = None, /, **rows: list[Row]) -> Anomaly:
    (anomaly,) = found(two_leaders.CHECKER, group(on, **rows)).anomalies
    return anomaly


def test_a_broker_with_the_number_0_leads_like_any_other() -> None:
    anomaly = told(leadership=[leads(0, 4), leads(1, 4)])
    assert (anomaly.evidence["leaders"], anomaly.offset) == (["n0", "n1"], -1)


def test_the_first_record_of_the_metadata_log_counts_and_one_without_a_place_does_not() -> None:
    assert told(leadership=[elected(1, 4, 0), elected(2, 4, 1)]).evidence["epoch"] == 4
    nowhere: Row = {**elected(2, 4, 0), "log_offset": None}
    result = found(two_leaders.CHECKER, group(leadership=[elected(1, 4, 0), nowhere]))
    assert (result.rows, result.anomalies) == (0, ())


@pytest.mark.parametrize("mark", [None, 0])
def test_without_a_known_high_watermark_nothing_of_the_metadata_log_counts(
    mark: int | None,
) -> None:
    rows = [elected(1, 4, 0), elected(2, 4, 0)]
    result = found(two_leaders.CHECKER, group(facts(quorum_high_watermark=mark), leadership=rows))
    assert (result.rows, result.anomalies) == (0, ())


def test_the_evidence_names_the_claims_of_each_broker_in_that_epoch_only() -> None:
    rows = [
        leads(1, 3, at=1 * S), leads(1, 4, at=2 * S), leads(1, 4, at=3 * S), leads(2, 4, at=5 * S),
        leads(2, 5, at=6 * S), leads(1, 6, at=7 * S),
    ]  # fmt: skip
    assert told(leadership=rows).evidence["witnesses"] == [
        "n1: 2 times, from 2.000 s to 3.000 s",
        "n2: once, at 5.000 s",
    ]


def test_records_that_differ_are_told_once_an_epoch_at_the_first_of_its_own() -> None:
    """Equal records before it, and those that differ in another epoch, are not that place."""
    one = log("n1", (2, A), (3, B), (3, C), (3, A))
    two = log("n2", (2, B), (3, B), (3, A), (3, C))
    result = found(two_leaders.CHECKER, group(replica_records=one + two))
    places = [(each.evidence["epoch"], each.offset) for each in result.anomalies]
    assert places == [(2, 0), (3, 2)]
    assert result.rows == 4


def test_a_marker_and_a_record_at_one_offset_differ() -> None:
    two = [{**row, "control": True} for row in log("n2", (0, A))]
    anomaly = told(replica_records=log("n1", (0, A)) + two)
    assert (anomaly.evidence["offset"], anomaly.evidence["epoch"]) == (0, 0)
    assert anomaly.evidence["source"] == "replica-records"


def test_a_node_leads_the_quorum_in_one_epoch_by_its_own_file_only() -> None:
    both: list[Row] = [
        {"node": node, "role": "leader", "epoch": 0, "observed_ns": None} for node in ("n2", "n1")
    ]
    (anomaly,) = found(two_leaders.QUORUM_CHECKER, whole_run(quorum_states=both)).anomalies
    assert anomaly.evidence == {
        "epoch": 0, "source": "quorum", "leaders": ["n1", "n2"], "offset": None,
        "witnesses": [f"{node}: according to its own file or log" for node in ("n1", "n2")],
    }  # fmt: skip
    assert (anomaly.topic, anomaly.partition, anomaly.offset) == ("__cluster_metadata", 0, -1)
    for change in ({"role": "follower"}, {"observed_ns": 5}, {"epoch": None}):
        states = [both[0], {**both[1], **change}]
        result = found(two_leaders.QUORUM_CHECKER, whole_run(quorum_states=states))
        assert (result.rows, result.anomalies) == (1, ())


def believed(leader: int, epoch: int, *, at: int = S) -> Row:
    return {**leads(leader, epoch, at=at, source="metadata"), "observer": "n3"}


@pytest.mark.parametrize(
    ("one", "other", "witnesses"),
    [
        (
            leads(1, 4, at=2 * S),
            elected(2, 4, 0),
            ["n1: list-offsets, once, at 2.000 s",
             "n2: metadata-log, once, at an unknown time"],
        ),
        (
            leads(1, 4),
            believed(2, 4, at=3 * S),
            ["n1: list-offsets, once, at 1.000 s",
             "n2: metadata, once, at 3.000 s"],
        ),
    ],
)  # fmt: skip
def test_what_only_two_sources_show_together_is_told_with_both(
    one: Row, other: Row, witnesses: list[str]
) -> None:
    anomaly = told(leadership=[one, other])
    assert anomaly.sentence.startswith(
        "n1 and n2 are both reported as leader of log-0-0 in epoch 4: "
    )
    assert (anomaly.evidence["source"], anomaly.evidence["witnesses"]) == ("several", witnesses)


def test_metadata_answers_that_name_two_leaders_of_an_epoch_are_enough() -> None:
    anomaly = told(leadership=[believed(1, 4), believed(2, 4)])
    assert anomaly.sentence.startswith("Metadata named n1 and n2 as leaders of log-0-0 in epoch 4")
    one = [believed(1, 4), believed(2, 5), believed(-1, 4), believed(2, -1), leads(1, 4)]
    result = found(two_leaders.CHECKER, group(leadership=one))
    assert (result.rows, result.anomalies) == (1, ())


def test_a_source_that_shows_two_leaders_is_told_and_not_the_union_as_well() -> None:
    rows = [leads(1, 4), leads(2, 4), elected(1, 4, 0)]
    assert told(leadership=rows).evidence["source"] == "list-offsets"


def test_without_a_recovery_what_only_the_metadata_log_adds_is_not_trusted() -> None:
    never = facts(milestones=())
    for rows, broken in (
        ([leads(1, 4), elected(2, 4, 0)], ("recovered",)),
        ([elected(1, 4, 0), elected(2, 4, 1)], ("recovered",)),
        ([leads(1, 4), believed(2, 4)], ()),
        ([leads(1, 4), believed(2, 4), elected(1, 4, 0)], ()),
    ):
        assert told(never, leadership=rows).broken_premises == broken
        assert told(leadership=rows).broken_premises == ()
