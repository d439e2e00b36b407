"""broker-ended and broker-hit-from-outside: who ended a process of the cluster."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from checkers import broker_ended
from checkers.protocol import Checker
from checkers.run import judge_runs
from results.record.milestones import ENDED, Milestone, append_milestone
from results.record.paths import RunPaths
from results.record.terms import Validity
from tests.checkers.faithful import FaithfulRun
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import S, facts, found, group, sentences

BY_ITSELF, OUTSIDE = broker_ended.CHECKER, broker_ended.OUTSIDE_CHECKER
WATCHED = Milestone(name="noted", at_ns=90 * S, detail={"lives": "4"})


GIVING_UP = (
    "ERROR Shutting down because we were unable to register with the controller quorum.",
    "ERROR [BrokerServer id=2] Timed out while waiting for the broker to be unfenced",
    "ERROR Received a fatal error while waiting for the controller to acknowledge that",
    "kafka.zookeeper.ZooKeeperClientTimeoutException: Timed out waiting for connection",
)
FAILED_START = "ERROR Fatal error during KafkaServer startup. Prepare to shutdown"


def ended(
    code: str, *, said: str = "", node: str = "n2", life: int = 1, at_s: int = 60
) -> Milestone:
    detail = {"node": node, "incarnation": f"{life}", "code": code, "said": said}
    return Milestone(name=ENDED, at_ns=at_s * S, detail=detail)


def said_of(checker: Checker, *stones: Milestone, fault: str = "", at_s: int = 50) -> list[str]:
    rows = []
    if fault:
        rows = [{"id": 1, "kind": fault, "targets": ["n2"], "requested_ns": at_s * S}]
    rows = [{**row, "applied_ns": row["requested_ns"], "confirmed_ns": None} for row in rows]
    about = facts(milestones=(*facts().milestones, *stones))
    return sentences(checker, group(about, faults=rows))


def test_who_fails_when_it_is_told_to_stop_ended_by_itself() -> None:
    failed = ended("1")
    failed.detail["told"] = "stop"
    (sentence,) = said_of(BY_ITSELF, WATCHED, failed)
    assert "n2 ended with exit code 1 when it was asked to stop, and no fault" in sentence


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("0", "ended with exit code 0"),
        ("1", "ended with exit code 1"),
        ("3", "ended with exit code 3"),
        ("-6", "was ended by SIGABRT"),
        ("-11", "was ended by SIGSEGV"),
        ("134", "was ended by SIGABRT"),
        ("255", "ended with exit code 255"),
        ("128", "ended with exit code 128"),
    ],
)
def test_a_broker_that_exits_or_crashes_is_to_blame(code: str, how: str) -> None:
    assert said_of(BY_ITSELF, WATCHED, ended(code)) == [
        f"n2 {how}, and no fault had caused this (detected at 60.000 s)"
    ]
    assert said_of(OUTSIDE, WATCHED, ended(code)) == []


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("-9", "was ended by SIGKILL"),
        ("137", "was ended by SIGKILL"),
        ("143", "was ended by SIGTERM"),
        ("", "ended in a way that was not observed"),
        ("torn", "ended in a way that was not observed"),
        ("-1", "was ended by SIGHUP"),
        ("stopped", "was stopped (SIGSTOP)"),
    ],
)
def test_who_was_hit_by_somebody_else_is_not(code: str, how: str) -> None:
    assert said_of(BY_ITSELF, WATCHED, ended(code)) == []
    assert said_of(OUTSIDE, WATCHED, ended(code)) == [
        f"n2 {how}, and no fault had caused this (detected at 60.000 s)"
    ]


def test_its_last_error_is_told_rather_than_its_last_line() -> None:
    end = ended("1", said="ERROR no controller\n[at] INFO stopped")
    (sentence,) = said_of(BY_ITSELF, WATCHED, end)
    assert sentence.endswith("; its last output: ERROR no controller")


def test_its_last_words_are_told() -> None:
    said = "ERROR first\njava.lang.OutOfMemoryError: Java heap space"
    (sentence,) = said_of(BY_ITSELF, WATCHED, ended("3", said=said))
    assert sentence.endswith("; its last output: java.lang.OutOfMemoryError: Java heap space")


@pytest.mark.parametrize("kind", ["disk-full", "read-only", "wipe", "bit-flip", "power-loss"])
def test_a_disk_that_a_fault_hit_before_explains_an_exit_and_no_signal(kind: str) -> None:
    assert said_of(BY_ITSELF, WATCHED, ended("1"), fault=kind) == []
    assert said_of(BY_ITSELF, WATCHED, ended("1"), fault=kind, at_s=61)
    assert said_of(BY_ITSELF, WATCHED, ended("1", node="n1"), fault=kind)
    assert said_of(OUTSIDE, WATCHED, ended("-9"), fault=kind)


@pytest.mark.parametrize(("kind", "explains"), [("wipe", True), ("disk-full", False)])
def test_what_only_kept_a_broker_from_writing_explains_nothing_later(
    kind: str, *, explains: bool
) -> None:
    about = facts(milestones=(WATCHED, ended("1")))
    for healed_s, excused in ((60, True), (30, True), (29, explains)):
        row: Row = {"kind": kind, "targets": ["n2"], "requested_ns": 10 * S,
                    "confirmed_ns": 11 * S, "healed_ns": healed_s * S}  # fmt: skip
        assert (sentences(BY_ITSELF, group(about, faults=[row])) == []) is excused


@pytest.mark.parametrize(
    ("kind", "family", "explains"),
    [("disk-full", "", False), ("any", "disk-errors", False), ("bit-flip", "", True)],
)
def test_a_disk_that_refuses_requests_fills_no_heap(
    kind: str, family: str, *, explains: bool
) -> None:
    fault = broken_disk(family, kind=kind)
    out = "Terminating due to java.lang.OutOfMemoryError: Java heap space"
    assert (left_of(BY_ITSELF, fault, ended("3", said=out)) == 0) is explains
    caught = "ERROR java.lang.OutOfMemoryError: Direct buffer memory\nFATAL Halting"
    assert left_of(BY_ITSELF, fault, ended("1", said=caught)) == 0


def broken_disk(family: str, **other: object) -> Row:
    """Return a fault of a disk of n2, from 10 to 60 s."""
    return {
        "kind": "any", "spec": f'{{"family": "{family}"}}', "targets": ["n2"],
        "requested_ns": 10 * S, "confirmed_ns": 11 * S, "healed_ns": 60 * S, **other,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("family", "explains", "explains_later"),
    [
        ("disk-errors", True, False),
        ("lost-flushes", True, True),
        ("slow-disks", False, False),
        ("kill", False, False),
    ],
)
def test_disks_that_break_requests_explain_an_exit_of_their_own_node(
    family: str, *, explains: bool, explains_later: bool
) -> None:
    def excused(**other: object) -> bool:
        return left_of(BY_ITSELF, broken_disk(family, **other), ended("1")) == 0

    assert excused() is explains
    assert excused(healed_ns=None) is explains
    assert excused(healed_ns=55 * S) is explains
    assert excused(healed_ns=54 * S) is explains_later, "the next one was started"
    assert excused(healed_ns=57 * S, heal_effect='{"took_s": 3.0}') is explains_later
    assert excused(healed_ns=57 * S, heal_effect='{"took_s": 2.0}') is explains
    assert not excused(targets=["n1"])


def test_a_disk_that_broke_requests_explains_no_end_of_a_life_that_began_on_it_mended() -> None:
    told = '{"family": "disk-errors", "incarnations": {"n2": %s}}'
    before = ("2", 60, False)
    for hit, healed_s, explains in (("1", 60, True), ("1", 40, True), ("0", 60, False), before):
        fault = broken_disk("", spec=told % hit, healed_ns=healed_s * S)
        assert (left_of(BY_ITSELF, fault, ended("1")) == 0) is explains
        never_back = {**fault, "healed_ns": None}
        assert (left_of(BY_ITSELF, never_back, ended("1")) == 0) is explains
    for unknown in ('"1"', "null"):
        fault = broken_disk("", spec=told % unknown, healed_ns=54 * S)
        assert left_of(BY_ITSELF, fault, ended("1")) == 1
    nameless = ended("1")
    nameless.detail["incarnation"] = ""
    assert left_of(BY_ITSELF, broken_disk("", spec=told % "1"), nameless) == 0


@pytest.mark.parametrize(
    ("hit", "explains"), [(3, False), (2, False), (1, True), (0, True), (-1, True)]
)
def test_lost_flushes_explain_an_end_of_that_life_and_soon_of_the_next_ones(
    hit: int, *, explains: bool
) -> None:
    spec = f'{{"family": "lost-flushes", "begun": true, "incarnations": {{"n2": {hit}}}}}'
    fault = broken_disk("", spec=spec, healed_ns=20 * S)
    assert (left_of(BY_ITSELF, fault, ended("1")) == 0) is explains
    half_way = {**fault, "confirmed_ns": None, "effect": '{"without_effect": "no answer"}'}
    assert (left_of(BY_ITSELF, half_way, ended("1")) == 0) is explains
    none = {**half_way, "effect": '{"without_effect": "no effect could be measured in time"}'}
    assert left_of(BY_ITSELF, none, ended("1")), "no log was cut"


@pytest.mark.parametrize("kind", ["wipe", "bit-flip", "power-loss", "lost-flushes"])
def test_data_that_a_fault_took_explains_no_end_at_any_distance(kind: str) -> None:
    """The process after that fetches the data again, and the one after it never lacked any."""
    spec = '{"family": "lost-flushes", "begun": true, "incarnations": {"n2": 1}}'
    fault = broken_disk("", kind=kind, spec=spec, healed_ns=20 * S)
    for life, at_s, left in ((1, 30, 0), (2, 80, 0), (2, 81, 1), (3, 80, 0), (3, 400, 1)):
        end = ended("1", life=life, at_s=at_s)
        assert left_of(BY_ITSELF, fault, end) == left
        assert left_of(BY_ITSELF, {**fault, "healed_ns": None}, end) == 0

    def broken(life: int, *before: Milestone) -> tuple[str, ...]:
        about = facts(milestones=(WATCHED, *before, ended("1", life=life, at_s=400)))
        (found_one,) = found(BY_ITSELF, group(about, faults=[fault])).anomalies
        doubtful = "long after a fault had taken its data" in found_one.sentence
        assert doubtful is bool(found_one.broken_premises)
        return found_one.broken_premises

    assert broken(2) == ("shown-cause",)
    assert broken(3) == ()
    # The incarnation before it ended soon, on the same disk.
    assert broken(3, ended("1", life=2, at_s=30)) == ("shown-cause",)


@pytest.mark.parametrize("kind", ["wipe", "lost-flushes", "disk-errors", "power-loss"])
def test_no_fault_explains_an_end_above_a_file_system_of_ours_that_failed(kind: str) -> None:
    end = ended("1")
    end.detail["disk"] = "gone"
    fault = broken_disk(kind, kind=kind)
    assert left_of(BY_ITSELF, fault, ended("1")) == 0
    assert left_of(BY_ITSELF, fault, end) == 0
    assert left_of(OUTSIDE, fault, end) == 1


SEEN_GONE = '{"how": "refused", "met": {"n2": 0}, "ended": ["n2"]}'
UNSEEN = '{"without_effect": "no effect could be measured in time"}'


@pytest.mark.parametrize(
    ("effect", "heal", "explains"),
    [
        ('{"how": "refused", "met": {"n2": 3}, "ended": ["n2"]}', "", True),
        ('{"how": "refused", "met": {"n2": 0}, "ended": []}', "", True),  # It may meet one later,
        ('{"how": "refused", "met": {"n2": 0}, "ended": []}', '{"met": {"n2": 2}}', True),
        ('{"how": "refused", "met": {"n2": 0}, "ended": []}', '{"met": {"n2": 0}}', False),
        (SEEN_GONE, "", False),
        (SEEN_GONE, '{"met": {"n2": 1}}', True),  # It met it between two looks.
        ('{"how": "short", "met": {"n2": 3}, "ended": ["n2"]}', "", False),  # write(2) allows it.
        (UNSEEN, "", False),
        (UNSEEN, '{"how": "refused", "met": {"n2": 1, "n1": 0}}', True),
        (UNSEEN, '{"how": "refused", "met": {"n2": 0, "n1": 1}}', False),
        (UNSEEN, '{"how": "short", "met": {"n2": 1}}', False),
        ('{"without_effect": "the disk of n2: no answer"}', "", True),  # Nobody looked.
        ('{"without_effect": "the disk of n2: no answer"}', '{"met": {"n2": 0}}', False),
        ('{"how": ["refused"]}', '{"how": {}}', True),
        ('{"met": 7, "ended": ["n2"]}', '{"met": {}}', True),
        ('{"met": {"n2": 3}, "ended": 7}', '{"met": {"n2": "many"}}', True),
        ("", "", True),
    ],
)
def test_a_disk_that_broke_nothing_of_the_brokers_or_only_cut_it_short_explains_no_exit(
    effect: str, heal: str, *, explains: bool
) -> None:
    about = facts(milestones=(WATCHED, ended("1")))
    row: Row = {"kind": "any", "spec": '{"family": "disk-errors", "begun": true}',
                "targets": ["n2"], "requested_ns": 10 * S, "effect": effect,
                "heal_effect": heal, "healed_ns": 60 * S if heal else None}  # fmt: skip
    assert (sentences(BY_ITSELF, group(about, faults=[row])) == []) is explains


@pytest.mark.parametrize(
    ("node", "since_s", "explains"), [("n2", 35, True), ("n1", 35, True), ("n2", 36, False)]
)
def test_who_starts_on_a_late_disk_may_give_up(node: str, since_s: int, *, explains: bool) -> None:
    about = facts(milestones=(WATCHED, ended("1", at_s=90)))
    late: Row = {"kind": "any", "spec": '{"family": "slow-disks"}', "targets": [node],
                 "requested_ns": since_s * S, "confirmed_ns": since_s * S}  # fmt: skip
    kill: Row = {"kind": "kill", "targets": ["n2"], "requested_ns": 30 * S,
                 "confirmed_ns": 30 * S}  # fmt: skip
    assert (sentences(BY_ITSELF, group(about, faults=[late, kill])) == []) is explains
    unfelt: Row = {**late, "confirmed_ns": None}
    assert sentences(BY_ITSELF, group(about, faults=[unfelt, kill]))
    assert sentences(BY_ITSELF, group(about, faults=[late]))


def test_an_end_above_a_file_system_that_had_ended_is_none_of_the_brokers_doing() -> None:
    end = ended("1")
    end.detail["disk"] = "gone"
    assert said_of(BY_ITSELF, WATCHED, end) == []
    (sentence,) = said_of(OUTSIDE, WATCHED, end)
    assert "n2 ended with exit code 1 after Logquake's file system under its data" in sentence


def test_a_disk_explains_an_end_that_nobody_saw() -> None:
    assert said_of(OUTSIDE, WATCHED, ended(""), fault="disk-full") == []
    assert said_of(OUTSIDE, WATCHED, ended("stopped"), fault="disk-full")
    assert said_of(OUTSIDE, WATCHED, ended(""), fault="kill")


def test_a_kill_elsewhere_explains_nothing() -> None:
    assert said_of(BY_ITSELF, WATCHED, ended("1"), fault="kill")


def told(
    code: str,
    *,
    other: Row,
    own: Row,
    said: str = "",
    system: str = "kafka:4.3.1",
    more: Sequence[Row] = (),
    plan: Mapping[str, object] | None = None,
    main_ended_s: int | None = None,
) -> list[str]:
    """Return what is said of an end of n2, at 90 s, while it was to start again, from 20 s on."""
    rows: list[Row] = [
        {"id": 1, "kind": "kill", "targets": ["n2"], "requested_ns": 20 * S, "healed_ns": None},
        {"id": 2, "kind": "halves", "targets": ["n1"], "requested_ns": 30 * S},
    ]
    rows = [{**rows[0], **own}, {**rows[1], **other}, *more]
    stones: tuple[Milestone, ...] = (WATCHED, ended(code, said=said, at_s=90))
    if main_ended_s is not None:
        stones = (*stones, Milestone(name="main-ended", at_ns=main_ended_s * S))
    about = facts(milestones=stones, plan={"system": system, **(plan or {})})
    return sentences(BY_ITSELF, group(about, faults=rows))


def test_who_starts_while_another_fault_goes_on_for_long_may_give_up() -> None:
    assert told("1", other={}, own={}) == []
    for words in GIVING_UP:
        assert told("1", other={}, own={}, said=f"ERROR before\n{words}\nINFO last") == []
    assert told("1", other={}, own={}, said="ERROR Error while reading checkpoint file")
    assert told("1", other={"healed_ns": 90 * S}, own={"healed_ns": 91 * S}) == []
    assert told("-6", other={}, own={}), "a crash is no way to give up"
    assert told("1", other={"requested_ns": 35 * S}, own={}) == [], "it had not registered yet"
    assert told("1", other={"requested_ns": 35 * S + 1}, own={}), "not for long enough"
    assert told("1", other={"requested_ns": 12 * S}, own={}) == []
    assert told("1", other={"healed_ns": 89 * S}, own={}), "it could join again"
    assert told("1", other={}, own={"requested_ns": 30 * S}) == []
    assert told("1", other={}, own={"requested_ns": 30 * S + 1}), "it was started too late"
    assert told("1", other={}, own={"healed_ns": 89 * S}), "it had started"
    assert told("1", other={}, own={"targets": ["n1"]}), "it was not to start"
    assert told("1", other={}, own={"kind": "pause"}), "it had not ended"
    assert told("1", other={}, own={"requested_ns": 91 * S}), "it came later"
    assert told("1", other={"requested_ns": 95 * S}, own={}), "nothing else went on"
    assert told("1", other={"kind": "clock-offset"}, own={}), "that keeps no controller away"
    assert told("1", other={"kind": "kill"}, own={}) == []
    of_zookeeper = {"kind": "by its family", "spec": '{"family": "keeper"}'}
    assert told("1", other=of_zookeeper, own={}) == []
    assert told("1", other={**of_zookeeper, "spec": '{"family": "clock"}'}, own={})
    killed = {"kind": "by what it did", "effect": '{"kind": "kill"}'}
    assert told("1", other=killed, own=killed) == []


@pytest.mark.parametrize(
    ("system", "waits_s"), [("kafka:4.3.1", 60), ("kafka:3.9.1:zookeeper", 30)]
)
def test_a_fault_must_last_until_a_broker_gave_up_and_for_as_long_as_it_waits(
    system: str, waits_s: int
) -> None:
    """The end is seen up to 30 s later; a broker needs 5 s to register, and 10 s after a heal."""

    def excused(from_s: float, to_s: float | None, said: str = GIVING_UP[0]) -> bool:
        other = {"requested_ns": int(from_s * S), "healed_ns": None if to_s is None else to_s * S}
        return told("1", other=other, own={}, said=said, system=system) == []

    for length_s in (1, 10):
        for begin_s in range(21, 90):
            assert not excused(begin_s, begin_s + length_s), (begin_s, length_s)
    assert excused(21, 85), "its end was seen later"
    assert excused(21, 21 + waits_s), "it gave up then"
    assert excused(81 - waits_s, 66), "after the heal it had too little time"
    assert not excused(81 - waits_s, 65), "it had time enough"
    assert excused(95 - waits_s, None)
    assert not excused(95.1 - waits_s, None), "it gave up too early"


def test_faults_that_follow_each_other_keep_a_broker_away_together() -> None:
    def excused(pause_s: int, *, kind: str = "isolate", said: str = GIVING_UP[0]) -> bool:
        first: Row = {"requested_ns": 25 * S, "healed_ns": 50 * S}
        second: Row = {"id": 3, "kind": kind, "targets": ["n3"],
                       "requested_ns": (50 + pause_s) * S, "healed_ns": 88 * S}  # fmt: skip
        return told("1", other=first, own={}, said=said, more=[second]) == []

    assert excused(0)
    assert excused(10), "it needs as long to register"
    assert not excused(11), "it could register"
    assert not excused(0, kind="clock-offset")
    assert not excused(0, said=""), "nothing says that it gave up before the heal"


SHIFTS = {"faults": [{"at_s": 1, "kind": "clock-offset", "target": "n1", "hold_s": 1}]}


def at(second: int, said: str) -> str:
    """Return a line of a broker's log."""
    return f"[2026-01-02 00:{second // 60:02d}:{second % 60:02d},500] {said}"


def test_its_own_log_shows_how_long_before_its_end_it_gave_up() -> None:
    """Found late, and with its exit, an end is seen up to 10 s after the last line."""

    def excused(*said: str, healed_s: int, **more: object) -> bool:
        other: Row = {"requested_ns": 2 * S, "healed_ns": healed_s * S}
        return told("1", other=other, own={}, said="\n".join(said), **more) == []  # type: ignore[arg-type]

    words = (at(70, GIVING_UP[0]), at(75, "INFO [BrokerServer id=2] shut down completed"))
    assert excused(*words, healed_s=65), "it gave up from 75 to 85 s"
    assert not excused(*words, healed_s=64), "it could have registered"
    for unknown in (
        (GIVING_UP[0], words[1]),
        (at(80, GIVING_UP[0]), words[1]),
        (f"[2026-13-02 00:01:10,500] {GIVING_UP[0]}", words[1]),
        (words[0], "[2026-01-02 00:61:10,500] INFO last"),
    ):
        assert excused(*unknown, healed_s=60), unknown
        assert not excused(*unknown, healed_s=49), unknown
    # An exception has the time of the line before it, and needs no more.
    assert not excused(at(70, "ERROR Exiting Kafka"), GIVING_UP[3], words[1], healed_s=64)
    # Shifted clocks tell nothing; and after the main phase, ends are looked for rarely.
    assert excused(*words, healed_s=64, plan=SHIFTS)
    assert excused(*words, healed_s=64, main_ended_s=89)
    assert not excused(*words, healed_s=64, main_ended_s=90)


def test_a_plan_may_let_a_broker_give_up_earlier_or_later() -> None:
    kraft, keeper = "initial.broker.registration.timeout.ms", "zookeeper.connection.timeout.ms"
    for system, name in (("kafka:4.3.1", kraft), ("kafka:3.9.1:zookeeper", keeper)):
        for plan, explains in (
            ({"broker": {name: "20000"}}, True),
            ({"node": {"n2": {name: "20000"}}}, True),
            ({"node": {"n1": {name: "20000"}}}, False),
            ({"broker": {name: "70000"}}, False),
            ({"broker": {name: "soon"}}, False),
        ):
            other: Row = {"requested_ns": 75 * S}
            left = told("1", other=other, own={}, said=GIVING_UP[0], system=system, plan=plan)
            assert (left == []) is explains, (system, plan)


def test_words_of_any_failed_start_are_those_of_giving_up_if_no_other_names_a_reason() -> None:
    exiting = "ERROR Exiting Kafka due to fatal exception during startup."
    reason = "java.lang.IllegalStateException: no such epoch"
    old = partial(told, "1", other={}, system="kafka:3.9.1:zookeeper")
    said = f"{FAILED_START}\n{exiting}\nINFO last"
    assert old(own={}, said=said) == []
    assert old(own={}, said=f"{FAILED_START}\n{reason}\n{exiting}"), "a reason"
    assert old(own={}, said=f"ERROR before\n{FAILED_START}"), "a reason"
    assert old(own={}, said="INFO last"), "no word of it"
    assert told("1", other={}, own={}, said=said), "without ZooKeeper they say more"
    new = '{"incarnations": {"n2": 1}}'
    assert old(own={"spec": new}, said=said), "and now all do"
    for name in ("kafka.zookeeper.ZooKeeperClientTimeoutException", "zkclient.ZkTimeoutException"):
        assert old(own={"spec": new}, said=f"{name}\n{said}") == []


def test_who_starts_while_its_links_to_controllers_stall_may_give_up() -> None:
    spec = '{"family": "stall", "links": [["n1", "n3"], ["n3", "n2"]]}'
    stall = {"kind": "by its family", "spec": spec, "confirmed_ns": 31 * S}
    assert told("1", other=stall, own={}) == [], "each answer takes a stall"
    assert told("1", other=stall, own={}, said=GIVING_UP[0]) == []
    assert told("1", other=stall, own={}, said="java.lang.IllegalStateException: late request")
    assert told("1", other={**stall, "confirmed_ns": None}, own={}), "none was ever seen"
    assert told("1", other={**stall, "confirmed_ns": 91 * S}, own={}), "it was seen too late"
    elsewhere = spec.replace("n2", "n1")
    assert told("1", other={**stall, "spec": elsewhere}, own={}), "its own links did not stall"
    for links in ("[]", "7", '[7, "n2"]'):
        damaged = f'{{"family": "stall", "links": {links}}}'
        assert told("1", other={**stall, "spec": damaged}, own={}), links
    for apart, keeper in (("kafka:4.3.1:controllers", "n101"), ("kafka:3.9.1:zookeeper", "zk")):
        assert told("1", other=stall, own={}, system=apart), "links to brokers only"
        to_keeper = {**stall, "spec": spec.replace("n3", keeper)}
        assert told("1", other=to_keeper, own={}, system=apart) == []
    assert told("1", other={**stall, "spec": spec.replace("stall", "stall-clients")}, own={})


def test_who_starts_while_a_controller_wants_for_something_may_give_up() -> None:
    apart, life = "kafka:4.3.1:controllers", '"incarnations": {"n2": %s}'
    for short_of in ("handles", "processor", "memory"):
        effect = f'{{"kind": "{short_of}"}}'
        wanting = {"kind": "by what it did", "effect": effect, "confirmed_ns": 31 * S}
        assert told("1", other=wanting, own={}) == []
        assert told("1", other={**wanting, "confirmed_ns": None}, own={}), "it was not felt"
        assert told("1", other=wanting, own={}, system=apart), "it is no controller"
        for node in ("n101", "n2"):
            hit = {**wanting, "targets": [node]}
            assert told("1", other=hit, own={}, system=apart) == []
        assert told("1", other=wanting, own=wanting), "nobody knows which life it hit"
        for hit_life, ends in (("0", short_of != "processor"), ("1", False), ("2", False)):
            own = {**wanting, "spec": f'{{"begun": true, {life % hit_life}}}'}
            left = told("1", other=wanting, own=own, said=GIVING_UP[0])
            assert (left == []) is ends, "the heal started it"
            own["healed_ns"] = 89 * S
            assert told("1", other=wanting, own=own, said=GIVING_UP[0]), "it had started"


EMFILE = "java.nio.file.FileSystemException: data/x.tmp: Too many open files"
CRASHED = "ERROR Halting: java.lang.NullPointerException"
HALTED = "ERROR Shutdown broker because all log dirs in data have failed"


def starved(of: str, *, heal: str | None = None, **other: object) -> Row:
    """Return a fault of the resources of n2, from 50 to 58 s, by what it measured."""
    return {
        "kind": "by what it did", "targets": ["n2"], "requested_ns": 50 * S,
        "confirmed_ns": 51 * S, "healed_ns": 58 * S,
        "effect": f'{{"kind": "{of}", "incarnations": {{"n2": 1, "n1": 1}}}}',
        "heal_effect": heal or '{"kind": "freed"}', **other,
    }  # fmt: skip


def left_of(checker: Checker, fault: Row, *ends: Milestone) -> int:
    return len(sentences(checker, group(facts(milestones=(WATCHED, *ends)), faults=[fault])))


def test_who_had_no_file_handle_left_may_halt() -> None:
    halted = ended("1", said=f"{EMFILE}\n{HALTED}")
    assert left_of(BY_ITSELF, starved("handles"), halted) == 0
    assert left_of(BY_ITSELF, starved("handles", healed_ns=None), halted) == 0
    assert left_of(BY_ITSELF, starved("handles", healed_ns=30 * S), halted) == 0
    untold, lasting = (
        ended("1"),
        starved("handles", heal='{"not_healed": "so far"}', healed_ns=None),
    )
    assert left_of(BY_ITSELF, lasting, untold) == 0, "its words are not known yet"
    assert left_of(BY_ITSELF, lasting, ended("1", said=HALTED)), "they are known"
    assert left_of(BY_ITSELF, starved("handles"), untold), "and would be by now"
    assert left_of(BY_ITSELF, starved("handles", healed_ns=30 * S - 1), halted), "long over"
    unseen = starved("handles", confirmed_ns=None)
    assert left_of(BY_ITSELF, unseen, halted) == 0, "it says itself what it lacked"
    for other in (ended("1", said=CRASHED), untold, ended("1", said=EMFILE, life=2)):
        assert left_of(BY_ITSELF, unseen, other), other
    assert left_of(BY_ITSELF, {**lasting, "confirmed_ns": None}, untold), "nobody says so"
    assert left_of(BY_ITSELF, starved("handles", requested_ns=61 * S), halted), "it came later"
    assert left_of(BY_ITSELF, starved("handles", targets=["n1"]), halted), "of another node"
    assert left_of(BY_ITSELF, starved("processor"), halted), "that takes no handle"
    assert left_of(BY_ITSELF, starved("memory"), halted)
    assert left_of(BY_ITSELF, starved("handles"), ended("1", said=HALTED)), "for another reason"
    assert left_of(BY_ITSELF, starved("handles"), ended("-6", said=EMFILE)), "a crash"
    assert left_of(OUTSIDE, starved("handles"), ended("-9", said=EMFILE)), "nor a kill"
    assert left_of(OUTSIDE, starved("handles"), ended("", said=EMFILE)) == 0
    assert left_of(OUTSIDE, starved("handles"), ended("stopped", said=EMFILE))


def test_want_of_handles_excuses_no_halt_whose_last_complaint_is_another() -> None:
    accepting = f"ERROR Error while accepting connection (java.io.IOException: {EMFILE})"
    for said, excused in (
        (f"{accepting}\n{CRASHED}", False),
        (f"{CRASHED}\n{accepting}", True),
        (f"{accepting}\n{CRASHED}\nat java.base/sun.nio.ch.Net.accept(Too many open files)", False),
        (f"{accepting}\n{HALTED}\n[at] INFO stopped", True),
        (f"{accepting}\n{HALTED}\nERROR Error while processing data for partition log-0-1", True),
        (f"{HALTED}\nERROR Error while processing data for partition log-0-1", False),
        (f"{HALTED}\n{accepting}\nat java.base/java.lang.Exception.run", True),
    ):
        assert (left_of(BY_ITSELF, starved("handles"), ended("1", said=said)) == 0) is excused, said


def test_records_of_old_have_want_of_handles_before_what_it_came_after() -> None:
    said = f"Caused by: {EMFILE}\nERROR Encountered fatal fault: Unexpected error"
    old = starved("handles")
    assert left_of(BY_ITSELF, old, ended("1", said=said)) == 0
    new = {**old, "spec": '{"begun": true, "incarnations": {"n2": 1}}'}
    assert left_of(BY_ITSELF, new, ended("1", said=said))


def test_what_it_said_last_may_be_noted_by_the_heal_that_started_it_again() -> None:
    def heal(said: str) -> Row:
        return starved("handles", heal=f'{{"kind": "freed", "said": {said}}}')

    assert left_of(BY_ITSELF, heal(f'{{"n2": ["{EMFILE}", "last"]}}'), ended("1")) == 0
    for other in (f'{{"n1": ["{EMFILE}"]}}', '{"n2": ["ERROR no room"]}', "{}", '{"n2": 7}', "[1]"):
        assert left_of(BY_ITSELF, heal(other), ended("1")), other


@pytest.mark.parametrize("code", ["-9", "137"])
def test_who_the_kernel_killed_for_memory_was_hit_by_nobody_else(code: str) -> None:
    def heal(kills: str) -> Row:
        return starved("memory", heal=f'{{"kind": "freed", "kills": {kills}}}')

    assert left_of(OUTSIDE, heal('{"n2": 1}'), ended(code)) == 0
    assert left_of(OUTSIDE, starved("memory", healed_ns=None), ended(code)) == 0, "not counted yet"
    for other in ('{"n2": 0}', '{"n1": 1}', "{}", "7", '{"n2": "many"}'):
        assert left_of(OUTSIDE, heal(other), ended(code)), other
    of_another = {**heal('{"n2": 1}'), "targets": ["n1"]}
    assert left_of(OUTSIDE, of_another, ended(code)), "of another node"
    assert left_of(OUTSIDE, {**heal('{"n2": 1}'), "confirmed_ns": None}, ended(code))
    assert left_of(OUTSIDE, {**heal('{"n2": 1}'), "healed_ns": 29 * S}, ended(code)), "long over"
    of_processor = starved("processor", heal='{"kind": "freed", "kills": {"n2": 1}}')
    assert left_of(OUTSIDE, of_processor, ended(code)), "that kills nobody"


def test_only_the_life_that_was_hit_is_excused_and_not_the_one_before_or_after() -> None:
    fault = starved("memory", heal='{"kind": "freed", "kills": {"n2": 2}}')
    assert left_of(OUTSIDE, fault, ended("-9"), ended("-9", life=2, at_s=61)) == 1
    assert left_of(OUTSIDE, fault, ended("-9", life=0, at_s=52), ended("-9")) == 1
    assert left_of(OUTSIDE, fault, ended("-9", node="n1"), ended("-9")) == 1
    assert left_of(OUTSIDE, fault, ended("-15")) == 1, "the kernel sends no SIGTERM"
    for effect in ('{"kind": "memory"}', '{"kind": "memory", "incarnations": [1]}'):
        assert left_of(OUTSIDE, {**fault, "effect": effect}, ended("-9")), "it is not known which"


def test_the_next_life_has_all_handles_and_crashes_for_reasons_of_its_own() -> None:
    """Its record is that of a first end with EMFILE, a heal at 58 s, and another end at 70 s."""
    halted = ended("1", at_s=52)
    fault = starved("handles", heal=f'{{"kind": "freed", "said": {{"n2": ["{EMFILE}"]}}}}')
    for said in (CRASHED, EMFILE, ""):
        next_life = ended("1", said=said, life=2, at_s=70)
        assert left_of(BY_ITSELF, fault, halted, next_life) == 1, said
    assert left_of(BY_ITSELF, fault, halted) == 0
    assert left_of(BY_ITSELF, fault, ended("1", said=CRASHED)) == 1, "its own words come first"


def test_no_want_of_memory_explains_an_exit() -> None:
    fault = starved("memory", heal='{"kind": "freed", "kills": {"n2": 1}}')
    assert left_of(BY_ITSELF, fault, ended("3", said="java.lang.OutOfMemoryError: Java heap space"))
    assert left_of(OUTSIDE, fault, ended("")), "nobody saw how"


def test_rows_are_the_processes_that_were_watched() -> None:
    about = facts(milestones=(*facts().milestones, WATCHED))
    assert found(BY_ITSELF, group(about)).rows == 4
    assert not BY_ITSELF.applies(facts()), "a record of before anybody watched"
    assert not OUTSIDE.applies(facts())
    for lives, applies in (("1", True), ("0", False), ("", False), ("²", False), ("-3", False)):
        noted = Milestone(name="noted", at_ns=1, detail={"lives": lives})
        assert BY_ITSELF.applies(facts(milestones=(noted,))) is applies
    unknown = facts(milestones=(ended("1"),))
    assert (BY_ITSELF.applies(unknown), found(BY_ITSELF, group(unknown)).rows) == (True, 0)


def test_the_evidence_is_whose_end_it_was_and_what_was_said() -> None:
    about = facts(milestones=(ended("1", said="FATAL one\n\nlast"),))
    (anomaly,) = found(BY_ITSELF, group(about)).anomalies
    assert anomaly.name == "broker-ended"
    assert anomaly.evidence == {
        "node": "n2",
        "how": "ended with exit code 1",
        "seen_ns": 60 * S,
        "said": ["FATAL one", "last"],
    }
    (outside,) = found(OUTSIDE, group(facts(milestones=(ended("-9"),)))).anomalies
    assert outside.name == "broker-hit-from-outside"


def test_a_fault_that_was_asked_for_as_it_ended_explains_it_and_one_that_never_began_does_not() -> (
    None
):
    assert said_of(BY_ITSELF, WATCHED, ended("1"), fault="wipe", at_s=60) == []
    never: Row = {"kind": "wipe", "targets": None, "requested_ns": 1, "spec": "{}"}
    refused: Row = {
        "kind": "wipe", "targets": ["n2"], "requested_ns": 1,
        "effect": '{"without_effect": "no"}',
    }  # fmt: skip
    about = facts(milestones=(WATCHED, ended("1")))
    assert len(sentences(BY_ITSELF, group(about, faults=[never, refused]))) == 1


@pytest.mark.parametrize(
    ("code", "validity"),
    [(None, Validity.VALID), ("1", Validity.INVALID), ("-9", Validity.UNKNOWN)],
)
def test_a_faithful_run_is_judged_by_it(
    tmp_path: Path, code: str | None, validity: Validity
) -> None:
    root = FaithfulRun(5, steps=120).write(tmp_path / "t" / "run")
    if code is not None:
        append_milestone(RunPaths(root).milestones, ended(code))
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is validity
