"""Histories of others become our record: the same from EDN as from JSON lines, or a sentence."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.errors import HistoryError
from checkers.histories.judging import Mode, judge_histories
from checkers.histories.reading import read_histories
from checkers.histories.tables import FIRST_NUMBERED, History
from results.record.terms import Judge, Validity
from tests.checkers.made_histories import MadeHistory, edn

DATA = Path(__file__).parent / "data"
CORPUS = Path(__file__).parents[1] / "histories"
IN_EDN = ("hand-19", "hand-23", "hand-31", "hand-32", "r034", "r187", "r429", "r591")


def only(path: Path) -> History:
    (history,) = read_histories(path)
    return history


def written(folder: Path, *entries: dict[str, Any] | str, name: str = "h.jsonl") -> Path:
    path = folder / name
    lines = [each if isinstance(each, str) else json.dumps(each) for each in entries]
    path.write_text("".join(line + "\n" for line in lines))
    return path


def entry(kind: str, f: str, value: object, *, process: int = 0, **more: object) -> dict[str, Any]:
    return {"process": process, "type": kind, "f": f, "value": value, **more}


def rows(history: History, table: str, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in history.tables[table].to_pylist()]


def test_a_history_in_the_form_of_jepsen() -> None:
    history = only(DATA / "jepsen-history.edn")
    assert history.name == "jepsen-history"
    assert history.places == (("key", 5), ("key", 6))
    assert rows(history, "ops", "op_id", "process", "f", "outcome", "messages") == [
        (0, 0, "assign", "ok", 0), (2, 1, "subscribe", "ok", 0), (5, 0, "txn", "ok", 2),
        (6, 1, "poll", "ok", 1), (10, 0, "send", "info", 1), (12, 1, "crash", "info", 0),
        (14, 9, "assign", "ok", 0), (16, 8, "debug-topic-partitions", "ok", 0),
        (18, 9, "poll", "ok", 3), (20, 8, "send", "info", 1),
    ]  # fmt: skip
    assert rows(history, "sends", "op_id", "mop", "partition", "value", "offset", "outcome",
                "acked", "txn_id") == [
        (5, 0, 5, 139, 271, "ok", True, 5), (10, 0, 5, 140, None, "info", False, 10),
        (20, 0, 5, 141, None, "info", False, 20), (5, 2, 6, 1, 0, "ok", True, 5),
    ]  # fmt: skip
    assert rows(history, "polls", "op_id", "mop", "pos", "partition", "offset", "value") == [
        (6, 0, 0, 5, 271, 139), (18, 0, 1, 5, 271, 139), (18, 0, 2, 5, 274, 140),
        (18, 0, 0, 6, 0, 1),
    ]  # fmt: skip
    assert sorted(rows(history, "assignments", "op_id", "process", "kind", "partition")) == [
        (0, 0, "subscribe", 5), (0, 0, "subscribe", 6), (2, 1, "subscribe", 5),
        (6, 1, "rebalance-assigned", 5), (6, 1, "rebalance-assigned", 6),
        (14, 9, "subscribe", 5), (14, 9, "subscribe", 6),
    ]  # fmt: skip
    assert rows(history, "transactions", "txn_id", "op_id", "decision", "outcome") == [
        (5, 5, "commit", "committed"), (10, 10, "commit", "unknown"),
        (20, 20, "commit", "unknown"),
    ]  # fmt: skip
    (verdict,) = judge_histories([history], Mode())
    assert verdict.valid is Validity.VALID


@pytest.mark.parametrize(
    ("indexes", "ids"),
    [
        ((7, 8, 20, 31), (7, 20)),  # Those of the history, so that its ops can be found there.
        ((7, 7, 20, 31), (0, 2)),
        ((7, 8, 5, 31), (0, 2)),
        ((-1, 8, 20, 31), (0, 2)),
        ((7, 8, 20, 2**62), (0, 2)),
        ((7, 8, None, 31), (0, 2)),
        ((7, 8, "20", 31), (0, 2)),
    ],
)
def test_an_op_is_called_by_the_index_of_its_invocation_if_indexes_grow(
    tmp_path: Path, indexes: tuple[object, ...], ids: tuple[int, int]
) -> None:
    entries = [
        entry(kind, "send", [["send", 0, each]]) for each in (1, 2) for kind in ("invoke", "ok")
    ]
    history = only(written(tmp_path, *({**each, "index": index} for each, index in
                                       zip(entries, indexes, strict=True))))  # fmt: skip
    for table in ("ops", "sends", "transactions"):
        assert rows(history, table, "op_id") == [(each,) for each in ids]
    assert rows(history, "sends", "txn_id") == [(each,) for each in ids]


@pytest.mark.parametrize("packed", [False, True])
def test_a_vector_of_ops_and_a_packed_file_are_the_same_history(
    tmp_path: Path,
    packed: bool,  # noqa: FBT001 - a case
) -> None:
    text = "; exported\n\n[" + (DATA / "jepsen-history.edn").read_text() + "]\n"
    path = tmp_path / ("jepsen-history.edn.gz" if packed else "jepsen-history.edn")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert only(path) == only(DATA / "jepsen-history.edn")


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_edn_and_json_lines_are_the_same_history(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("h")
    made = MadeHistory(seed, wrong=0.1)
    told = folder / "h.edn"
    told.write_text("".join(edn(each) + "\n" for each in made.entries))
    whole = folder / "all.jsonl"
    whole.write_text(json.dumps({"name": "h", "ops": made.entries}) + "\n")
    assert only(told) == only(made.write(folder / "h.jsonl")) == only(whole)


def test_histories_of_the_corpus_in_edn_have_the_same_verdicts(tmp_path: Path) -> None:
    verdicts = json.loads((CORPUS / "verdicts.json").read_text())
    notes = json.loads((CORPUS / "notes.json").read_text())
    with gzip.open(CORPUS / "histories.jsonl.gz", "rt") as lines:
        histories = [json.loads(line) for line in lines]
    chosen = [each for each in histories if each["name"].startswith(IN_EDN)]
    assert len(chosen) == len(IN_EDN)
    for history in chosen:
        path = tmp_path / f"{history['name']}.edn"
        path.write_text("".join(edn(op) + "\n" for op in history["ops"]))
        (verdict,) = judge_histories(read_histories(path), Mode())
        wanted = verdicts[history["name"]]["ww"]
        if "unseen_oddity" in notes.get(history["name"], {}):
            continue
        assert (verdict.valid is Validity.VALID) == wanted["valid"], history["name"]
        levels = {name for name in wanted["errors"] if name.endswith("-cycle-exists")}
        assert set(verdict.anomalies) == set(wanted["errors"]) - levels


def test_what_jepsen_picks_where_an_offset_has_two_values_decides_what_is_skipped(
    tmp_path: Path,
) -> None:
    path = written(
        tmp_path,
        entry("invoke", "poll", [["poll"]]),
        entry("ok", "poll", [["poll", {"0": [[0, 1], [1, 2]]}]]),
        entry("invoke", "poll", [["poll"]], process=1),
        entry("ok", "poll", [["poll", {"0": [[0, 1], [1, 9], [2, 3]]}]], process=1),
    )
    (smallest,) = judge_histories([only(path)], Mode())
    assert set(smallest.anomalies) == {"inconsistent-offsets"}
    picks = {"h": {("key", 0): {1: 9}}}
    (picked,) = judge_histories([only(path)], Mode(), picks=picks)
    assert set(picked.anomalies) == {"inconsistent-offsets"}
    path = written(
        tmp_path,
        *(entry(kind, "poll", [["poll", {"0": [[0, 1], [1, 9]]}]]) for kind in ("invoke", "ok")),
        *(entry(kind, "poll", [["poll", {"0": [[1, 2], [2, 3]]}]]) for kind in ("invoke", "ok")),
    )
    (smallest,) = judge_histories([only(path)], Mode())
    (picked,) = judge_histories([only(path)], Mode(), picks=picks)
    assert "int-poll-skip" not in smallest.anomalies
    assert set(picked.anomalies) == {"inconsistent-offsets"}


def test_keys_and_values_may_be_words(tmp_path: Path) -> None:
    path = tmp_path / "words.edn"
    path.write_text(
        '{:process 0 :type :invoke :f :send :value [[:send :x :a] [:send "x" -7] [:send x 1.5]]}\n'
        '{:process 0 :type :ok :f :send :value [[:send :x [0 :a]] [:send "x" [0 -7]] '
        "[:send x [0 1.5]]]}\n"
        "{:process 1 :type :invoke :f :poll :value [[:poll]]}\n"
        '{:process 1 :type :ok :f :poll :value [[:poll {:x [[0 :a] [1 "a"]]}]]}\n'
    )
    history = only(path)
    assert history.places == ((":x", 0), ('"x"', 0), ("x", 0))
    values = {row["topic"]: row["value"] for row in history.tables["sends"].to_pylist()}
    assert {history.names[value] for value in values.values()} == {":a", "-7", "1.5"}
    assert all(value >= FIRST_NUMBERED for value in values.values())
    polled = [row["value"] for row in history.tables["polls"].to_pylist()]
    assert polled[0] == values[":x"]
    assert history.names[polled[1]] == '"a"'
    (verdict,) = judge_histories([history], Mode())
    assert set(verdict.anomalies) == {"unseen"}
    sentences = [each.sentence for each in verdict.anomalies["unseen"].examples]
    assert any('value -7, acknowledged at offset 0 of "x"-0' in each for each in sentences)


def test_big_numbers_and_numbers_as_words_are_keys_like_others(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        entry("invoke", "send", [["send", 2**31, 1], ["send", "7", 1], ["send", "key", 2**62]]),
    )
    history = only(path)
    assert history.places == (("2147483648", 0), ("key", 7), ("'key'", 0))
    assert history.names == {FIRST_NUMBERED: str(2**62)}


def test_entries_of_one_time_keep_their_order_and_times_never_go_back(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        entry("invoke", "send", [["send", 0, 1]], time=70),
        entry("ok", "send", [["send", 0, [0, 1]]], time=70),
        entry("invoke", "send", [["send", 0, 2]], time=5),
        entry("ok", "send", [["send", 0, [1, 2]]], time=-3),
        entry("invoke", "send", [["send", 0, 3]], time=90),
    )
    assert rows(only(path), "ops", "invoke_ns", "complete_ns") == [(70, 71), (72, 73), (90, None)]
    timeless = written(tmp_path, *(entry(kind, "crash", None) for kind in ("invoke", "info")))
    assert rows(only(timeless), "ops", "invoke_ns", "complete_ns") == [(0, 1)]


def test_a_key_that_is_kept_goes_on_and_one_that_is_left_out_is_told(tmp_path: Path) -> None:
    def assign(*keys: int, ended: str = "ok") -> list[dict[str, Any]]:
        return [entry(kind, "assign", list(keys)) for kind in ("invoke", ended)]

    sent = [entry(kind, "send", [["send", 7, 1]]) for kind in ("invoke", "ok")]
    path = written(tmp_path, *assign(1, 2), *sent, *assign(2, 3), *assign(9, ended="fail"),
                   *assign(2))  # fmt: skip
    assert sorted(rows(only(path), "assignments", "op_id", "kind", "partition")) == [
        (0, "subscribe", 1), (0, "subscribe", 2), (4, "left-out", 1), (4, "left-out", 7),
        (4, "subscribe", 3), (8, "left-out", 3),
    ]  # fmt: skip


@pytest.mark.parametrize("judge", list(Judge))
def test_an_assignment_may_start_where_its_group_committed(tmp_path: Path, judge: Judge) -> None:
    def done(process: int, f: str, value: object) -> list[dict[str, Any]]:
        return [entry(kind, f, value, process=process) for kind in ("invoke", "ok")]

    def judged(*after: dict[str, Any]) -> set[str]:
        path = written(
            tmp_path,
            *(each for at in range(3) for each in done(0, "send", [["send", 0, [at, at + 1]]])),
            *done(1, "assign", [0]),
            *done(1, "poll", [["poll", {"0": [[0, 1], [1, 2]]}]]),
            *after,
        )
        (verdict,) = judge_histories([only(path)], Mode(judge=judge))
        return set(verdict.anomalies)

    rest = [["poll", {"0": [[2, 3]]}]]
    assert judged(*done(2, "assign", [0]), *done(2, "poll", rest)) == set()
    first = [["poll", {"0": [[0, 1]]}]]  # After that a jump is one.
    assert judged(*done(2, "assign", [0]), *done(2, "poll", first), *done(2, "poll", rest)) == {
        "poll-skip"
    }


def test_rebalances_before_and_during_an_op_are_both_told(tmp_path: Path) -> None:
    log = {"before": [{"keys": [1]}], "during": [{"keys": [2]}], "after": None}
    path = written(tmp_path, entry("invoke", "poll", [["poll"]]),
                   entry("ok", "poll", [["poll"]], rebalance_log=log))  # fmt: skip
    assert rows(only(path), "assignments", "kind", "partition") == [
        ("rebalance-assigned", 1), ("rebalance-assigned", 2),
    ]  # fmt: skip


def test_what_ended_without_a_value_did_what_was_asked(tmp_path: Path) -> None:
    path = written(tmp_path, entry("invoke", "send", [["send", 0, 1]]),
                   entry("info", "send", None))  # fmt: skip
    assert rows(only(path), "sends", "value", "offset", "outcome") == [(1, None, "info")]


def test_a_negative_offset_is_none(tmp_path: Path) -> None:
    path = written(tmp_path, entry("invoke", "send", [["send", 0, 1]]),
                   entry("ok", "send", [["send", 0, [-1, 1]]]))  # fmt: skip
    assert rows(only(path), "sends", "offset", "acked") == [(None, True)]


def test_lines_with_nothing_on_them_are_skipped(tmp_path: Path) -> None:
    path = written(tmp_path, "", entry("invoke", "crash", None), "  ", entry("info", "crash", None))
    assert rows(only(path), "ops", "f", "outcome") == [("crash", "info")]


def test_a_history_without_a_name_is_called_after_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, {"ops": []}, {"name": "two", "ops": []}, name="many.jsonl")
    assert [each.name for each in read_histories(path)] == ["many:1", "two"]


BEGUN = json.dumps(entry("invoke", "send", [["send", 0, 1]]))


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["", "  "], "{path} has no op"),
        (["{]"], "{path} is not EDN: line 1: a ] closes {{"),
        (['{"a": 1'], "{path}, line 1 is not JSON: "),
        (["[1, 2]"], "{path}, line 1: an op must be a map"),
        (['{"a": 1}', "[1]"], "{path}, line 1: the op has no process"),
        ([BEGUN, "[1]"], "{path}, line 2: a line must be an op, or a history with its ops"),
        (['{"ops": 3}'], "{path}, line 1: the ops of a history must be a list"),
        (['{"name": "x", "ops": [3]}'], "{path}, line 1, op 0 of x: an op must be a map"),
        (['{"process": 1, "type": "done"}'],
         "{path}, line 1: the type of an op must be invoke, ok, fail or info"),
        (['{"process": 1, "type": "invoke"}'], "{path}, line 1: the op has no f"),
        (['{"process": -1, "type": "invoke", "f": "poll"}'],
         "{path}, line 1: the process of an op must be a number, 0 or higher"),
        ([f'{{"process": {2**62}, "type": "invoke", "f": "poll"}}'],
         "{path}, line 1: the process of an op must be a number, 0 or higher"),
        (['{"process": "0", "type": "invoke", "f": "poll"}'],
         "{path}, line 1: the process of a client's op must be a number, not 0"),
        (['{:process :0 :type :invoke :f :send}'],
         "{path}, line 1: the process of a client's op must be a number, not :0"),
        (['{"process": 1, "type": "ok", "f": "poll"}'],
         "{path}, line 1: process 1 ends an op that it did not begin"),
        ([BEGUN, BEGUN],
         "{path}, line 2: process 0 begins an op before the end of its op of {path}, line 1"),
        ([BEGUN, '{"process": 0, "type": "info"}', BEGUN],
         "{path}, line 3: process 0 continues after an op of unknown outcome (info)"),
        ([BEGUN.replace("0, 1", "0, 2"), '{"process": 0, "type": "ok"}', BEGUN,
          '{"process": 0, "type": "ok", "value": [["send", 0, [1, 2]]]}'],
         "{path}, line 4: this op sends a value that {path}, line 2 also sends to the same key"),
        (['{"process": 0, "type": "invoke", "f": "poll", "time": 1.5}'],
         "{path}, line 1: the time of an op must be a number of nanoseconds"),
        ([BEGUN, '{"process": 0, "type": "ok", "value": [["read", 0]]}'],
         "{path}, line 2: a send cannot have the value [['read', 0]]"),
        ([BEGUN, '{"process": 0, "type": "ok", "value": [["send", 0]]}'],
         "{path}, line 2: a send cannot have the value"),
        ([BEGUN, '{"process": 0, "type": "ok", "value": 7}'],
         "{path}, line 2: a send cannot have the value 7"),
        ([BEGUN, '{"process": 0, "type": "ok", "value": [["poll", {"0": [[1]]}]]}'],
         "{path}, line 2: a send cannot have the value"),
        ([BEGUN, '{"process": 0, "type": "ok", "value": [["poll", [1]]]}'],
         "{path}, line 2: a send cannot have the value"),
        ([BEGUN, '{"process": 0, "type": "ok", "value": [["send", true, 1]]}'],
         "{path}, line 2: a send cannot have the value"),
        ([BEGUN, '{"process": 0, "type": "ok", "value": [["send", 0, ["x", 1]]]}'],
         "{path}, line 2: 'x' is not an offset"),
        ([BEGUN, '{"process": 0, "type": "ok", "value": [["poll", {"0": [[true, 1]]}]]}'],
         "{path}, line 2: True is not an offset"),
        ([BEGUN, '{"process": 0, "type": "ok", "rebalance_log": [7]}'],
         "{path}, line 2: the log of rebalances must have events with keys"),
        ([BEGUN, '{"process": 0, "type": "ok", "rebalance_log": [{"keys": [[1]]}]}'],
         "{path}, line 2: a send cannot have the value"),
        (['{"process": 0, "type": "invoke", "f": "send", "value": [["send", 0, {"a": 1}]]}',
          '{"process": 0, "type": "invoke"}'], "{path}, line 2: process 0 begins an op before"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_one_sentence_with_the_line(
    tmp_path: Path, lines: list[str], why: str
) -> None:
    path = written(tmp_path, *lines)
    with pytest.raises(HistoryError) as told:
        list(read_histories(path))
    sentence = str(told.value)
    assert sentence.startswith(why.format(path=path))
    assert "\n" not in sentence


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x1f\x8b\x08\x00cut", "cannot be unpacked"),
        (gzip.compress(b'{"process": 1}' * 99, mtime=0)[:-9], "cannot be unpacked"),
        (b'{"process": "\xff"}', "is not text in UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_in_one_sentence(
    tmp_path: Path, content: bytes, why: str
) -> None:
    path = tmp_path / "h"
    path.write_bytes(content)
    with pytest.raises(HistoryError, match=why):
        list(read_histories(path))
    with pytest.raises(HistoryError, match="does not exist"):
        list(read_histories(tmp_path / "none"))
    with pytest.raises(HistoryError, match="is a folder"):
        list(read_histories(tmp_path))


@pytest.mark.parametrize(
    ("op", "deep"),
    [
        ('{"process": 0, "type": "invoke", "f": "txn", "value": %s}', 1000),
        ("{:process 0 :type :invoke :f :txn :value %s}", 1000),
        ("{:process 0 :type :invoke :f :txn :value [[:send 5 %s]]}", 200_000),
    ],
)
def test_lists_inside_of_lists_without_end_are_told_in_one_sentence(
    tmp_path: Path, op: str, deep: int
) -> None:
    path = written(tmp_path, op % ("[" * deep + "]" * deep))
    with pytest.raises(HistoryError) as told:
        list(read_histories(path))
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 500


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), data=st.data())
def test_a_damaged_history_is_a_sentence_or_a_verdict(
    tmp_path_factory: pytest.TempPathFactory, seed: int, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("h")
    made = MadeHistory(seed % 50, steps=20)
    text = "".join((edn if seed % 2 else json.dumps)(each) + "\n" for each in made.entries)
    at = data.draw(st.integers(0, len(text) - 1))
    piece = data.draw(
        st.sampled_from(["", "[", "}", '"', "null", "-", "9" * 30, ":x", "\n", "1.5"])
    )
    path = folder / "h"
    path.write_text(text[:at] + piece + text[at + data.draw(st.integers(0, 9)) :])
    try:
        histories = list(read_histories(path))
    except HistoryError:
        return
    assert len(judge_histories(histories, Mode())) == len(histories)
