"""A run whose every text is hostile: topic, errors, reasons, effects, log lines, settings, night.

What a browser or a terminal would do with them shows up: scripts set `window.ran`, images and links
ask for hosts that do not exist, escapes clear the screen, bidi controls turn text round.
"""

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from results.nights import write_night
from results.record.night import Night
from results.record.paths import RunPaths
from results.record.tables import TABLES
from results.record.verdict import Example, Verdict
from results.tables import STATISTICS, statistics_path
from results.verdict_json import read_verdict, write_verdict
from tests.results.conftest import PLACE, ns, record_rows, statistics_rows, write_rows

SCRIPT = "<script>window.ran=1</script><img src=http://evil.invalid/x onerror=window.ran=2>"
MARKUP = f"\"'>{SCRIPT}</title></style></svg><svg onload=window.ran=3>{{{{7*7}}}}{{% raw %}}"
ESCAPES = "\x1b[2J\x1b]0;title\x07\x9b31m\r\b"
BIDI = "\u202e\u2066\u200f\ufeff"
HOSTILE = f"{MARKUP}{ESCAPES}{BIDI}[bold red]x[/]\n\x00\ud800"
LONG_BYTES = 10_000_000
LONG = "<i>" * (LONG_BYTES // 3)
STARTED = datetime(2026, 11, 22, 1, 0, tzinfo=UTC)
FORBIDDEN = ("\x1b[2J", "\x1b]0", "\x07", "\x9b", "\x08", "\x00", *BIDI)
"""What must not come out as it went in."""
TOPIC = HOSTILE.replace("\ud800", "").replace("\x00", "")  # Tables hold UTF-8 only.


def poison(paths: RunPaths) -> RunPaths:
    """Put hostile text wherever others' text comes from, in a run that was made for tests."""
    rows = record_rows(TOPIC)
    for row in rows["truncations"]:
        row["reason"] = TOPIC
    for row in rows["sends"]:
        row["error"] = LONG if row["offset"] == 121 else TOPIC
        row["acked"] = row["offset"] != 121
    for row in rows["faults"]:
        row |= {"kind": TOPIC, "targets": [TOPIC], "spec": json.dumps({"target": HOSTILE})}
        row["effect"] = json.dumps({"kind": HOSTILE, "processes": [{"node": HOSTILE}]})
    rows["polls"] = [_polled()]
    rows["leadership"] = [_isr()]
    for name, table in rows.items():
        write_rows(paths.table(name), TABLES[name], table, paths.run_id)
    for name, table in statistics_rows(TOPIC).items():
        write_rows(statistics_path(paths, name), STATISTICS[name], table, paths.run_id)
    environment = {"started_utc": f"{STARTED:%Y%m%dT%H%M%SZ}", "kernel": HOSTILE, HOSTILE: HOSTILE,
                   "libraries": {HOSTILE: HOSTILE, "confluent-kafka": HOSTILE}}  # fmt: skip
    paths.environment.write_text(json.dumps(environment), encoding="utf-8")
    named = TOPIC.replace("/", "|")  # A night is a part of a path.
    write_night(paths.night, Night(suite=named, night=named, entry=TOPIC, repeats=TOPIC))
    _logs(paths)
    _checkpoints(paths)
    return paths


def hostile(paths: RunPaths) -> RunPaths:
    """Make a run of tests hostile, its verdict included; its topic has to be `TOPIC`."""
    poison(paths)
    verdict = read_verdict(paths.verdict)
    assert verdict is not None
    write_verdict(paths, _poisoned(verdict))
    return paths


def _poisoned(verdict: Verdict) -> Verdict:
    def worse(example: Example) -> Example:
        evidence = {**example.evidence, HOSTILE: HOSTILE, "replicas": [HOSTILE]}
        return dataclasses.replace(
            example, sentence=HOSTILE, topic=TOPIC, why=HOSTILE, evidence=evidence
        )

    anomalies = {
        name: dataclasses.replace(each, examples=tuple(map(worse, each.examples)))
        for name, each in verdict.anomalies.items()
    }
    return dataclasses.replace(
        verdict,
        anomalies={**anomalies, HOSTILE: anomalies["lost-write"]},
        unknown_because=(HOSTILE, LONG),
        guarantees=(HOSTILE,),
        checked={**verdict.checked, HOSTILE: 7},
        judge=HOSTILE,
        engine=HOSTILE,
    )


def _polled() -> dict[str, Any]:
    return {
        **PLACE, "topic": TOPIC, "op_id": 1, "mop": 0, "pos": 0, "offset": 121, "value": 3,
        "isolation": TOPIC, "process": 1, "phase": TOPIC, "invoke_ns": ns(24),
        "complete_ns": ns(24.1), "outcome": TOPIC,
    }  # fmt: skip


def _isr() -> dict[str, Any]:
    return {
        **PLACE, "topic": TOPIC, "asked_ns": ns(22), "observed_ns": ns(22.1), "source": TOPIC,
        "observer": TOPIC, "leader": 1, "leader_epoch": 4, "isr": [1],
    }  # fmt: skip


def _logs(paths: RunPaths) -> None:
    """A line of hostile text, one that is no UTF-8, and one of ten megabytes."""
    stamp = (STARTED + timedelta(seconds=23)).strftime("[%Y-%m-%d %H:%M:%S,000] ").encode()
    first = STARTED.strftime("[%Y-%m-%d %H:%M:%S,900] INFO starting\n").encode()
    one_line = TOPIC.replace("\n", "").replace("\r", "")
    log = paths.node("n1") / "logs" / "server.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(
        first
        + stamp + b"WARN " + one_line.encode() + b"\n"
        + stamp + b"ERROR \xff\xfe\x9b31m\x1b[2J no utf-8\n"
        + stamp + b"ERROR long " + b"<b>" * (LONG_BYTES // 3) + b"\n"
        + stamp + b"FATAL after the long one\n"
    )  # fmt: skip


def _checkpoints(paths: RunPaths) -> None:
    for node in ("n1", "n2"):
        data = paths.node(node) / "data"
        folder = data / "bad-0"
        folder.mkdir(parents=True, exist_ok=True)
        text = f"0\n1\n{node} {MARKUP}{ESCAPES}\n".encode() + b"\xff\n"
        (folder / "leader-epoch-checkpoint").write_bytes(text)
