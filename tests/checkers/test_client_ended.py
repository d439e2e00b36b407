"""client-ended: a crash ended a process of clients."""

from pathlib import Path
from typing import Any

import pytest

from checkers import client_ended
from checkers.run import judge_runs
from results.record.milestones import STOPPING, WORKER_ENDED, Milestone, append_milestone
from results.record.paths import RunPaths
from results.record.terms import Validity
from tests.broken.corpus import QUIET, Spot, broken, innocent
from tests.broken.record import Record
from tests.checkers.faithful import FaithfulRun
from tests.checkers.partition_rows import S, facts, found, group, sentences

CHECKER, NAME = client_ended.CHECKER, client_ended.NAME
WATCHED = Milestone(name=STOPPING, at_ns=80 * S, detail={"workers": "2"})
ASSERTION = "*** rdkafka_fetcher.c:681:rd_kafka_fetch_reply_handle_partition: assert: tver ***"
WHYS_OF: list[tuple[str, dict[str, Any], str]] = [
    (NAME, {"said": [ASSERTION]}, "its last output comes from librdkafka"),
    (NAME, {"said": []}, "librdkafka, or other native code in it, failed, not a broker"),
]
ROWS_OF = [
    (CHECKER, group(facts(milestones=())), "", group(facts(milestones=(WATCHED,))), 2),
]


def crash(said: str = "", *, worker: str = "0", signal: str = "SIGABRT") -> Milestone:
    detail = {"worker": worker, "signal": signal, "said": said}
    return Milestone(name=WORKER_ENDED, at_ns=60 * S, detail=detail)


def test_a_worker_that_crashes_is_told_with_its_library_and_its_last_words() -> None:
    about = facts(plan={"client_version": "2.5.3"}, milestones=(WATCHED, crash(f"a\n{ASSERTION}")))
    (anomaly,) = found(CHECKER, group(about)).anomalies
    assert anomaly.name == "client-ended"
    assert anomaly.sentence == (
        "worker 0, a process of librdkafka 2.5.3 clients, was ended by SIGABRT (detected at"
        f" 60.000 s); its last output: {ASSERTION}"
    )
    assert anomaly.evidence == {
        "node": "worker 0",
        "how": "was ended by SIGABRT",
        "seen_ns": 60 * S,
        "said": ["a", ASSERTION],
    }


@pytest.mark.parametrize(
    ("plan", "whose"),
    [({}, "a process of clients,"), ({"client_kind": "java"}, "a process of Kafka's Java clients")],
)
def test_whose_clients_they_were(plan: dict[str, object], whose: str) -> None:
    about = facts(plan=plan, milestones=(crash(signal="SIGSEGV", worker="1"),))
    (sentence,) = sentences(CHECKER, group(about))
    assert sentence.startswith("worker 1, ")
    assert whose in sentence
    assert sentence.endswith("was ended by SIGSEGV (detected at 60.000 s)")


def test_the_reason_of_another_kind_of_client_does_not_name_librdkafka() -> None:
    on = group(facts(plan={"client_kind": "java"}, milestones=(crash(),)))
    (anomaly,) = found(CHECKER, on).anomalies
    assert CHECKER.why(on, anomaly) == (
        "such a signal comes from a crash: native code in it failed, not a broker; the worker's"
        " log shows nothing more"
    )


def test_last_words_of_librdkafka_are_the_reason() -> None:
    on = group(facts(milestones=(crash(ASSERTION), crash("Segmentation fault", worker="1"))))
    own, others = (CHECKER.why(on, each) for each in found(CHECKER, on).anomalies)
    assert own.startswith("its last output comes from librdkafka")
    assert others.startswith("such a signal comes from a crash: librdkafka, or other native code")


def test_other_milestones_are_no_crashes() -> None:
    others = tuple(
        Milestone(name=name, at_ns=1, detail={}) for name in ("broker-ended", "zookeeper", "main")
    )
    assert found(CHECKER, group(facts(milestones=(WATCHED, *others)))).anomalies == ()


def test_rows_are_the_workers_that_were_watched() -> None:
    assert found(CHECKER, group(facts(milestones=(WATCHED,)))).rows == 2
    assert found(CHECKER, group(facts(milestones=(crash(), crash(worker="1"))))).rows == 2
    assert CHECKER.applies(facts(milestones=(crash(),)))
    for workers, applies in (("1", True), ("0", False), ("", False), ("²", False), ("-3", False)):
        stopping = Milestone(name=STOPPING, at_ns=1, detail={"workers": workers})
        assert CHECKER.applies(facts(milestones=(stopping,))) is applies
    assert not CHECKER.applies(facts(milestones=())), "a record of before anybody watched"


@pytest.mark.parametrize(("crashed", "validity"), [(False, "valid"), (True, "invalid")])
def test_a_faithful_run_is_judged_by_it(tmp_path: Path, *, crashed: bool, validity: str) -> None:
    root = FaithfulRun(5, steps=120).write(tmp_path / "t" / "run")
    if crashed:
        append_milestone(RunPaths(root).milestones, crash(ASSERTION))
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity(validity)


def _note(record: Record, name: str, at_ns: int, **detail: str) -> None:
    record.milestones.append({"name": name, "at_ns": at_ns, "detail": detail})
    record.milestones.sort(key=lambda each: int(each["at_ns"]))


@broken(NAME, row="H1", base="log", moments=(QUIET, "kill"), says="was ended by SIGABRT")
def a_client_library_fails_an_assertion(record: Record, spot: Spot) -> None:
    """The worker's process is gone with all of its clients; a crash is noted with its words."""
    _note(record, WORKER_ENDED, spot.at_ns, worker="0", signal="SIGABRT", said=ASSERTION)


@innocent(base="log")
def workers_stop_in_order(record: Record, _spot: Spot) -> None:
    """How many there were is noted when they are told to stop, and none had crashed."""
    reading_ns = next(each["at_ns"] for each in record.milestones if each["name"] == "final-reads")
    _note(record, STOPPING, int(reading_ns) - 1, workers="2")
