"""Jepsen's definitions, each by twins: histories that differ in the one thing that matters."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.histories.judging import Mode, judge_histories
from checkers.histories.reading import read_histories
from checkers.jepsen import lost_write
from results.record.terms import Judge, Validity
from results.record.verdict import Verdict
from tests.checkers.made_histories import Entry, MadeHistory
from tests.checkers.partition_rows import facts
from tests.oracle.jepsen import kinds

NEITHER_DISTANCES_NOR_CYCLES = {
    "inconsistent-offsets", "duplicate", "G1a", "lost-write", "unseen", "precommitted-read",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("histories")


def ops(*told: tuple[int, str, str, Any]) -> list[Entry]:
    """Entries of ops that end before the next one begins: (process, how it ended, f, value)."""
    return [
        {"process": process, "type": kind, "f": f, "value": value, "time": at}
        for at, (process, ended, f, value) in enumerate(told)
        for kind in ("invoke", ended)
    ]


def judged(folder: Path, entries: list[Entry], mode: Mode | None = None) -> Verdict:
    path = folder / "h.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    (verdict,) = judge_histories(read_histories(path), mode or Mode())
    return verdict


def counts(verdict: Verdict, *names: str) -> dict[str, int]:
    return {name: each.count for name, each in verdict.anomalies.items()
            if not names or name in names}  # fmt: skip


def sentences(verdict: Verdict, name: str) -> list[str]:
    return [example.sentence for example in verdict.anomalies[name].examples]


def sent(process: int, *offsets_and_values: tuple[int | None, int], ended: str = "ok",
         key: int = 0) -> tuple[int, str, str, Any]:  # fmt: skip
    return process, ended, "send", [["send", key, list(pair)] for pair in offsets_and_values]


def polled(process: int, *records: tuple[int, int], ended: str = "ok",
           key: int = 0) -> tuple[int, str, str, Any]:  # fmt: skip
    return process, ended, "poll", [["poll", {str(key): [list(each) for each in records]}]]


A, B, C = (0, 1), (1, 2), (2, 3)


def test_what_was_sent_is_read(folder: Path) -> None:
    verdict = judged(folder, ops(sent(0, A), sent(0, B), polled(1, A, B)))
    assert (verdict.valid, counts(verdict)) == (Validity.VALID, {})


def test_a_committed_value_below_what_a_poll_reached_is_lost(folder: Path) -> None:
    # op 0 committed at offset 0; op 4 read offset 1, and nobody offset 0.
    verdict = judged(folder, ops(sent(0, A), sent(0, B), polled(1, B)))
    assert counts(verdict) == {"lost-write": 1, "unseen": 1}
    (sentence,) = sentences(verdict, "lost-write")
    assert sentence == (
        "value 1, committed at offset 0 of key-0 by op 0 (ended at 0.000 s), was returned by no"
        " poll, although op 4 read beyond it"
    )


def test_without_acknowledgements_no_write_is_known_to_be_lost() -> None:
    assert lost_write.CHECKER.applies(facts(judge=Judge.JEPSEN))
    assert not lost_write.CHECKER.applies(facts(judge=Judge.JEPSEN, plan={"acks": "0"}))


def test_the_evidence_names_the_reader_that_went_furthest(folder: Path) -> None:
    verdict = judged(folder, ops(sent(0, A), sent(0, B), sent(0, C), polled(1, B), polled(2, C)))
    evidence = verdict.anomalies["lost-write"].examples[0].evidence
    assert (evidence["value"], evidence["offset"], evidence["op_id"]) == (1, 0, 0)
    assert evidence["furthest_reader_op_id"] == 8


def test_a_value_above_what_was_reached_is_unseen_and_not_lost(folder: Path) -> None:
    verdict = judged(folder, ops(sent(0, A), sent(0, B), polled(1, A)))
    assert counts(verdict) == {"unseen": 1}
    assert sentences(verdict, "unseen") == [
        "value 2, acknowledged at offset 1 of key-0 at 0.000 s by op 2, was returned by no poll"
    ]


@pytest.mark.parametrize("ended", ["info", "fail"])
def test_a_poll_that_did_not_end_ok_neither_reaches_nor_returns(folder: Path, ended: str) -> None:
    # Its records stand in the log all the same.
    verdict = judged(folder, ops(sent(0, A), sent(0, B), polled(1, B, ended=ended)))
    assert counts(verdict) == {"unseen": 2}


def test_a_value_without_a_known_place_is_not_lost(folder: Path) -> None:
    verdict = judged(folder, ops(sent(0, (None, 1)), sent(0, B), polled(1, B)))
    assert counts(verdict) == {"unseen": 1}


def test_a_value_at_the_place_that_was_reached_is_lost_if_another_was_read_there(
    folder: Path,
) -> None:
    verdict = judged(folder, ops(sent(0, A), sent(0, (0, 2)), polled(1, A)))
    assert counts(verdict, "lost-write", "inconsistent-offsets") == {
        "lost-write": 1, "inconsistent-offsets": 1,
    }  # fmt: skip


def test_a_lost_value_counts_with_its_last_place_and_a_read_one_with_its_first(
    folder: Path,
) -> None:
    # 1 stands at 0 and (by a poll that failed) at 3; readers reached 1 with the value 2.
    entries = ops(sent(0, A), sent(0, B), polled(1, (3, 1), ended="fail"), polled(1, B))
    assert "lost-write" not in judged(folder, entries).anomalies
    # 2 was read at 3, but stands at 1 as well: what stands between is not behind the reader.
    entries = ops(sent(0, B), sent(0, (2, 3)), polled(1, (3, 2)))
    assert "lost-write" not in judged(folder, entries).anomalies


def test_an_unknown_op_counts_once_a_reader_got_any_of_its_sends_on_any_key(folder: Path) -> None:
    txn = (0, "info", "txn", [["send", 0, [0, 1]], ["send", 1, [0, 1]]])
    later = sent(2, (1, 2), key=1)
    unseen = judged(folder, ops(txn, later, polled(1, (1, 2), key=1)))
    assert counts(unseen) == {}
    shown = judged(folder, ops(txn, later, polled(1, (0, 1)), polled(1, (1, 2), key=1)))
    assert counts(shown) == {"lost-write": 1}
    assert shown.anomalies["lost-write"].examples[0].partition == 1


def test_a_value_of_an_op_that_failed_or_is_unknown_is_never_unseen(folder: Path) -> None:
    verdict = judged(folder, ops(sent(0, A), sent(0, B, ended="fail"), sent(0, C, ended="info"),
                                 polled(1, A)))  # fmt: skip
    assert counts(verdict) == {}


def test_one_value_at_two_offsets_is_a_duplicate(folder: Path) -> None:
    verdict = judged(folder, ops(sent(0, A), sent(0, B), polled(1, A, B), polled(2, (2, 1))))
    assert counts(verdict, "duplicate", "inconsistent-offsets") == {"duplicate": 1}
    assert sentences(verdict, "duplicate") == ["value 1 is at offsets 0 and 2 of key-0"]
    (example,) = verdict.anomalies["duplicate"].examples
    assert (example.evidence["send_op_ids"], example.evidence["poll_op_ids"]) == ([0], [4, 6])


def test_one_value_read_twice_at_its_offset_is_none(folder: Path) -> None:
    verdict = judged(folder, ops(sent(0, A), polled(1, A), polled(2, A)))
    assert counts(verdict) == {}


def test_values_and_offsets_of_two_keys_have_nothing_to_do_with_each_other(folder: Path) -> None:
    verdict = judged(folder, ops(sent(0, A), sent(0, (5, 1), key=1), sent(0, (0, 9), key=1),
                                 polled(1, A), polled(1, (0, 9), (5, 1), key=1)))  # fmt: skip
    assert counts(verdict, "duplicate", "inconsistent-offsets") == {}


def test_one_offset_with_two_values_is_inconsistent(folder: Path) -> None:
    verdict = judged(folder, ops(sent(0, A), sent(0, (1, 9), ended="info"), polled(1, A),
                                 polled(2, (0, 9))))  # fmt: skip
    assert counts(verdict, "inconsistent-offsets", "duplicate") == {
        "inconsistent-offsets": 1, "duplicate": 1,
    }  # fmt: skip
    assert sentences(verdict, "inconsistent-offsets") == [
        "offset 0 of key-0 held value 1 and value 9"
    ]


def test_what_an_op_was_told_that_failed_counts_for_nothing(folder: Path) -> None:
    verdict = judged(folder, ops(sent(0, (0, 9), ended="fail"), sent(0, A), polled(1, A)))
    assert counts(verdict) == {}


def test_reading_what_failed_counts_each_time_that_an_ok_op_does(folder: Path) -> None:
    failed = sent(0, (None, 1), ended="fail")
    verdict = judged(folder, ops(failed, polled(1, A), polled(2, A), polled(3, A, ended="info")))
    assert counts(verdict, "G1a") == {"G1a": 2}
    assert sentences(verdict, "G1a")[0] == (
        "process 1 read value 1 at offset 0 of key-0 in op 2, though op 0, which sent it, failed"
    )
    unknown = sent(0, (None, 1), ended="info")
    assert counts(judged(folder, ops(unknown, polled(1, A))), "G1a") == {}


def test_what_jepsen_allows_depends_on_the_mode(folder: Path) -> None:
    # Process 1 reads 1 and then 3, over 2, which process 2 reads.
    skip = ops((1, "ok", "subscribe", [0]), sent(0, A), sent(0, B), sent(0, C), polled(1, A),
               polled(1, C), polled(2, A, B, C))  # fmt: skip
    assert judged(folder, skip).valid is Validity.VALID, "subscribe, as its op says"
    assert judged(folder, skip, Mode(subscribe=False)).valid is Validity.INVALID
    assert counts(judged(folder, skip)) == {"poll-skip": 1}
    assigned = [{**each, "f": "assign"} if each["f"] == "subscribe" else each for each in skip]
    assert judged(folder, assigned).valid is Validity.INVALID
    assert judged(folder, assigned, Mode(subscribe=True)).valid is Validity.VALID


def test_a_circle_of_reads_is_allowed_only_with_write_dependencies(folder: Path) -> None:
    txns = [
        {"process": 0, "type": "invoke", "f": "txn", "value": [["send", 0, 1], ["poll"]]},
        {"process": 1, "type": "invoke", "f": "txn", "value": [["send", 1, 1], ["poll"]]},
        {"process": 0, "type": "ok", "f": "txn",
         "value": [["send", 0, [0, 1]], ["poll", {"1": [[0, 1]]}]]},
        {"process": 1, "type": "ok", "f": "txn",
         "value": [["send", 1, [0, 1]], ["poll", {"0": [[0, 1]]}]]},
    ]  # fmt: skip
    assert counts(judged(folder, txns)) == {"G1c": 1}
    assert judged(folder, txns).valid is Validity.VALID
    assert judged(folder, txns, Mode(ww_deps=False)).valid is Validity.INVALID


@pytest.mark.parametrize("judge", [Judge.CONTRACT, Judge.STRICT])
def test_other_judges_never_call_a_history_valid(folder: Path, judge: Judge) -> None:
    verdict = judged(folder, ops(sent(0, A), polled(1, A)), Mode(judge=judge))
    assert verdict.valid is Validity.UNKNOWN
    assert len(verdict.unknown_because) == 1
    assert "no final reads" in verdict.unknown_because[0]
    assert "lost-write" not in verdict.checked
    broken = judged(folder, ops(sent(0, A), polled(1, A), polled(2, (0, 2))), Mode(judge=judge))
    assert (broken.valid, counts(broken)) == (Validity.INVALID, {"inconsistent-offsets": 1})


def test_a_history_of_nothing_is_unknown(folder: Path) -> None:
    verdict = judged(folder, ops((0, "ok", "assign", [0])))
    assert verdict.valid is Validity.UNKNOWN
    assert verdict.unknown_because == ("the history has nothing that could be compared",)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_log_that_does_as_it_should_is_valid(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    verdict = judged(tmp_path_factory.mktemp("h"), MadeHistory(seed).entries)
    assert verdict.valid is Validity.VALID, counts(verdict)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_kernels_and_oracle_agree(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    history = MadeHistory(seed, steps=40, wrong=0.1)
    verdict = judged(tmp_path_factory.mktemp("h"), history.entries)
    found = Counter(counts(verdict, *NEITHER_DISTANCES_NOR_CYCLES))
    wanted = kinds(history.entries)
    if "precommitted-read" in wanted:  # Ours counts each partition of an op.
        assert found["precommitted-read"] >= wanted["precommitted-read"]
        wanted["precommitted-read"] = found["precommitted-read"]
    assert found == wanted
