import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.record.atomic import StoreError
from results.record.paths import RunPaths
from results.record.terms import AnomalyClass, Validity
from results.record.verdict import AnomalySummary, Example, Verdict
from results.verdict_json import (
    MAX_NUMBER,
    read_verdict,
    verdict_from_json,
    verdict_text,
    verdict_to_json,
    write_verdict,
)

EXAMPLE = Example(
    sentence="value 7 of t-0 is gone",
    evidence={"value": 7, "nodes": ["n1", "n2"], "epochs": [4, 5], "seen": None, "late": True},
    topic="t",
    topic_id="id",
    partition=0,
    offset=2,
    allowed=False,
    trusted=True,
    why="",
)
VERDICT = Verdict(
    run_id="log/20261121T104500Z-7",
    valid=Validity.INVALID,
    judge="strict",
    engine="spark",
    anomalies={
        "lost-write": AnomalySummary(
            anomaly_class=AnomalyClass.SAFETY, count=3, allowed=1, trusted=2, examples=(EXAMPLE,)
        )
    },
    unknown_because=("no final read",),
    guarantees=("acks=1",),
    checked={"lost-write": 100, "unseen": None, "empty": 0},
    stats={"ops": {"send": 3}},
)

numbers = st.integers(-MAX_NUMBER - 1, MAX_NUMBER)
texts = st.text(alphabet=st.characters(exclude_categories=()), max_size=20)
evidence = st.dictionaries(
    texts,
    st.none() | st.booleans() | numbers | texts | st.lists(texts) | st.lists(numbers),
    max_size=4,
)
counts = st.integers(0, MAX_NUMBER)
examples = st.builds(
    Example,
    sentence=texts,
    evidence=evidence,
    topic=texts,
    topic_id=texts,
    partition=numbers,
    offset=numbers,
    allowed=st.booleans(),
    trusted=st.booleans(),
    why=texts,
)
summaries = st.builds(
    AnomalySummary,
    anomaly_class=st.sampled_from(AnomalyClass),
    count=counts,
    allowed=counts,
    trusted=counts,
    examples=st.lists(examples, max_size=2).map(tuple),
)


def test_the_form_is_the_one_of_the_record() -> None:
    values = verdict_to_json(VERDICT)
    assert values["schema_version"] == 1
    assert values["valid"] == "invalid"
    assert values["checked"] == {
        "lost-write": {"rows": 100},
        "unseen": "not-applicable",
        "empty": {"rows": 0},
    }
    loss = values["anomalies"]["lost-write"]
    assert (loss["class"], loss["count"], loss["allowed"], loss["trusted"]) == ("safety", 3, 1, 2)
    assert loss["examples"][0]["evidence"] == EXAMPLE.evidence
    assert values["unknown_because"] == ["no final read"]
    assert json.loads(verdict_text(VERDICT)) == values


def test_a_verdict_comes_back_from_its_file(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "log" / "1")
    assert read_verdict(paths.verdict) is None
    write_verdict(paths, VERDICT)
    assert read_verdict(paths.verdict) == VERDICT


@given(st.dictionaries(texts, summaries, max_size=3))
def test_any_text_comes_back_and_gives_the_same_bytes(
    anomalies: dict[str, AnomalySummary],
) -> None:
    verdict = dataclasses.replace(VERDICT, anomalies=anomalies)
    text = verdict_text(verdict)
    assert verdict_from_json(text.encode("ascii")) == verdict
    assert verdict_text(verdict_from_json(text)) == text


def test_bytes_do_not_depend_on_the_order_or_the_engine() -> None:
    backwards = dataclasses.replace(
        VERDICT,
        engine="local",
        checked=dict(reversed(VERDICT.checked.items())),
        anomalies={
            "lost-write": dataclasses.replace(
                VERDICT.anomalies["lost-write"],
                examples=(
                    dataclasses.replace(EXAMPLE, evidence=dict(reversed(EXAMPLE.evidence.items()))),
                ),
            )
        },
    )
    ours, theirs = verdict_text(VERDICT).splitlines(), verdict_text(backwards).splitlines()
    different = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
    assert different == [(' "engine": "spark",', ' "engine": "local",')]


def test_numbers_that_json_lacks_become_null() -> None:
    odd = dataclasses.replace(VERDICT, stats={"rate": float("nan"), "worst": [float("inf"), 1.5]})
    assert json.loads(verdict_text(odd))["stats"] == {"rate": None, "worst": [None, 1.5]}


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema_version": 2}', '{"schema_version": 1}', "\x00"]
)
def test_a_damaged_verdict_says_how_to_get_a_new_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "verdict.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(StoreError, match=r"cannot be read .*rewrite it with `logquake check`"):
        read_verdict(path)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("run_id",), None),
        (("judge",), 3),
        (("unknown_because",), "why"),
        (("guarantees", 0), 7),
        (("stats",), []),
        (("checked", "lost-write"), {"rows": "many"}),
        (("checked", "lost-write"), {"rows": 10**400}),
        (("anomalies", "lost-write", "allowed"), None),
        (("anomalies", "lost-write", "count"), 2.5),
        (("anomalies", "lost-write", "examples", 0, "topic"), {}),
        (("anomalies", "lost-write", "examples", 0, "offset"), None),
        (("anomalies", "lost-write", "examples", 0, "evidence"), []),
        (("anomalies", "lost-write", "examples", 0, "evidence"), {"op_id": 2**63}),
        (("anomalies", "lost-write", "examples", 0, "evidence"), {"values": [-(2**63) - 1]}),
    ],
)
def test_a_verdict_of_another_shape_is_none(
    tmp_path: Path, where: tuple[str | int, ...], value: object
) -> None:
    values: Any = verdict_to_json(VERDICT)
    inner = values
    *ahead, last = where
    for key in ahead:
        inner = inner[key]
    inner[last] = value
    path = tmp_path / "verdict.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(StoreError, match="it lacks") as refused:
        read_verdict(path)
    assert len(str(refused.value)) < 1000


def test_a_verdict_too_deep_to_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    path.write_text("[" * 200_000, encoding="utf-8")
    with pytest.raises(StoreError, match="cannot be read"):
        read_verdict(path)
