"""Read and write `verdict.json`. The same verdict always gives the same bytes.

Keys are sorted, all text is ASCII, and no number is NaN. Bytes that are not UTF-8 are written as
escapes. So the verdicts of two engines can be compared byte for byte. Two such verdicts differ only
in the key `engine`.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from results.record.atomic import StoreError, write_atomically
from results.record.paths import RunPaths
from results.record.reading import parse_json, read_bytes
from results.record.terms import AnomalyClass, Validity
from results.record.verdict import AnomalySummary, Basis, Compared, Example, Verdict, Words

SCHEMA_VERSION = 1
NOT_APPLICABLE = "not-applicable"
MAX_NUMBER = 2**63 - 1
MAX_VERDICT_BYTES = 64_000_000
MAX_WHY = 300

_Json = dict[str, Any]


def verdict_to_json(verdict: Verdict) -> _Json:
    """Return the contents of `verdict.json` as plain values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": verdict.run_id,
        "valid": verdict.valid.value,
        "judge": str(verdict.judge),
        "engine": verdict.engine,
        "anomalies": _anomalies(verdict),
        "unknown_because": list(verdict.unknown_because),
        "guarantees": list(verdict.guarantees),
        "checked": {
            name: NOT_APPLICABLE if rows is None else {"rows": int(rows)}
            for name, rows in verdict.checked.items()
        },
        "basis": _finite([dataclasses.asdict(each) for each in verdict.basis]),
        "words": {
            name: {key: value for key, value in dataclasses.asdict(each).items() if value}
            for name, each in verdict.words.items()
        },
        "ranked": list(verdict.ranked),
        "stats": _finite(verdict.stats),
        **({"reach": list(verdict.reach)} if verdict.reach else {}),
    }


def verdict_text(verdict: Verdict) -> str:
    """Return the text of `verdict.json`, with a newline at its end."""
    return _dumps(verdict_to_json(verdict))


def verdict_from_json(text: str | bytes) -> Verdict:
    """Return the verdict in a text of `verdict.json`.

    Raises:
        ValueError: The text is not JSON, has another schema version, or a key is missing.
    """
    raw = parse_json(text)
    if not isinstance(raw, dict) or raw.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"it is not a verdict of schema version {SCHEMA_VERSION}")
    try:
        return _verdict(raw)
    except (KeyError, TypeError, AttributeError) as missing:
        raise ValueError(f"it lacks {missing}, or has a wrong type for it") from missing


def write_verdict(paths: RunPaths, verdict: Verdict) -> None:
    """Write a run's `verdict.json` atomically.

    Raises:
        StoreError: The file cannot be written.
    """
    write_atomically(paths.verdict, verdict_text(verdict))


def read_verdict(path: Path) -> Verdict | None:
    """Return the verdict in a run's `verdict.json`, or None if the run was never judged.

    Raises:
        StoreError: The file exists, but cannot be read.
    """
    try:
        return verdict_from_json(read_bytes(path, max_bytes=MAX_VERDICT_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as unreadable:
        raise StoreError(
            f"the verdict {path} cannot be read ({str(unreadable)[:MAX_WHY]}); rewrite it with"
            " `logquake check`"
        ) from unreadable


def _dumps(value: _Json) -> str:
    return json.dumps(value, sort_keys=True, indent=1, allow_nan=False) + "\n"


def _finite(value: object) -> Any:  # noqa: ANN401 - any JSON
    """Replace NaN and infinities, which JSON does not support, by null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value


def _anomalies(verdict: Verdict) -> _Json:
    return {name: _finite(_summary_json(each)) for name, each in verdict.anomalies.items()}


def _summary_json(summary: AnomalySummary) -> _Json:
    return {
        "class": summary.anomaly_class.value,
        "count": summary.count,
        "allowed": summary.allowed,
        "trusted": summary.trusted,
        "examples": [dataclasses.asdict(example) for example in summary.examples],
    }


def _verdict(raw: _Json) -> Verdict:
    return Verdict(
        run_id=_text(raw["run_id"]),
        valid=Validity(raw["valid"]),
        judge=_text(raw["judge"]),
        engine=_text(raw["engine"]),
        anomalies={name: _summary(each) for name, each in raw["anomalies"].items()},
        unknown_because=_sentences(raw["unknown_because"]),
        guarantees=_sentences(raw["guarantees"]),
        checked={
            name: None if each == NOT_APPLICABLE else _number(each["rows"])
            for name, each in raw["checked"].items()
        },
        basis=tuple(_basis(each) for each in raw.get("basis", ())),
        words={name: _words(each) for name, each in raw.get("words", {}).items()},
        ranked=_sentences(raw.get("ranked", [])),
        reach=_sentences(raw.get("reach", [])),
        stats=_table(raw["stats"]),
    )


def _basis(raw: _Json) -> Basis:
    return Basis(
        promise=_text(raw["promise"]),
        given_up=bool(raw["given_up"]),
        compared=tuple(_compared(each) for each in raw["compared"]),
        unshown=_sentences(raw["unshown"]),
    )


def _words(raw: _Json) -> Words:
    words = Words(**{"means": "", **raw})
    explains = _table(words.explains)
    texts = (words.one, words.many, words.means, words.promise, words.uncounted)
    for text in (*texts, *explains.values()):
        _text(text)
    return words


def _compared(raw: _Json) -> Compared:
    compared = Compared(**raw)
    for text in (compared.check, compared.what):
        _text(text)
    for number in (compared.rows, compared.from_ns, compared.to_ns):
        _number(number)
    return compared


def _summary(raw: _Json) -> AnomalySummary:
    return AnomalySummary(
        anomaly_class=AnomalyClass(raw["class"]),
        count=_number(raw["count"]),
        allowed=_number(raw["allowed"]),
        trusted=_number(raw["trusted"]),
        examples=tuple(_example(each) for each in raw["examples"]),
    )


def _example(raw: _Json) -> Example:
    example = Example(**raw)
    texts = (example.sentence, example.topic, example.topic_id, example.why, example.cause)
    for text in texts:
        _text(text)
    for number in (example.partition, example.offset):
        _number(number)
    for each in _table(example.evidence).values():
        for value in each if isinstance(each, list) else (each,):
            if isinstance(value, int):
                _number(value)
    return example


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text: {value!r:.40}")
    return value


def _sentences(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"sentences: {value!r:.40}")
    return tuple(_text(each) for each in value)


def _number(value: object) -> int:
    """Return an integer that a table can store, or raise `TypeError`."""
    if not isinstance(value, int) or not -MAX_NUMBER - 1 <= value <= MAX_NUMBER:
        raise TypeError("a number")
    return value


def _table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"a table: {value!r:.40}")
    return value
