"""Why a partition took nothing or had no leader, and of the harness's own: clause by clause."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from checkers import broker_ended, faults, not_restored, slow_election, traffic, unavailable
from checkers.absences import answers_around
from checkers.facts import NOTED, Absence, Disturbance, RunFacts
from checkers.protocol import Checker, Proved
from checkers.quorum import QuorumFacts
from checkers.reigns import Reign
from checkers.taking import taking
from results.record.milestones import ENDED, STACKS, Milestone
from results.record.tables import TABLES
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    S,
    ack,
    facts,
    group,
    leads,
    read,
    reason,
    reasons,
    whole_run,
)
from tests.checkers.reasons import metadata, written
from tests.checkers.test_reigns import reign

CALM = 100
STONES = (*facts().milestones, Milestone(name="collected", at_ns=1_000 * S))


def about(*reigns: Reign, **changes: object) -> RunFacts:
    values: Row = {"calm_from_ns": CALM * S, "milestones": STONES, **changes}
    plan = {"nodes": 3, "replication": 3, "budgets": {"unavailable_s": 8, "election_s": 6}}
    return facts(plan=plan, reigns=reigns, **values)


# unavailable


def failed(error: str, at: int) -> Row:
    return {"op_id": at, "process": at, "mop": 0, "value": A + at, "acked": False, "acks": "all",
            "outcome": "info", "error": error, "invoke_ns": at * S,
            "complete_ns": (at + 1) * S}  # fmt: skip


def out(error: str, on: RunFacts | None = None, **rows: list[Row]) -> str:
    sends = [ack(A, 0, at=90 * S), *(failed(error, at) for at in range(101, 118))]
    return reason(unavailable.CHECKER, group(on or about(), sends=sends, **rows))


def answers(broker: int, epoch: int, *seconds: int) -> list[Row]:
    return [leads(broker, epoch, at=at * S) for at in seconds]


LED = answers(3, 1, *range(80, 130, 2))
REFUSED, SILENT = "NOT_ENOUGH_REPLICAS", "_MSG_TIMED_OUT"


def got(at: int, offset: int = 0, *, sent: int = 101) -> Row:
    """A poll, and when what it returned was sent; 0: long before."""
    return {**read(A + sent, offset, op=500 + at, phase="main"), "complete_ns": at * S}


def test_a_leader_that_refuses_sends_and_does_all_else() -> None:
    polls = [got(105), got(106, 1, sent=102), got(107), got(99, 2)]
    told = out(REFUSED, leadership=LED, polls=polls)
    assert told == (
        "n3, its leader in epoch 1, refused the sends with NOT_ENOUGH_REPLICAS, although it"
        " answered ListOffsets and returned 2 records of it to readers meanwhile"
    )


def test_reads_of_what_was_sent_before_or_from_followers_show_no_leader() -> None:
    ahead, led = [got(105, sent=0)], answers(3, 1, 80, 98)
    down = about(absences=(Absence(node="n3", from_ns=100 * S, until_ns=900 * S),))
    chosen = {"broker": {"replica.selector.class": "a.Selector"}}
    by_any = replace(about(), plan=about().plan.model_copy(update=chosen))
    for on, polls in ((down, ahead), (about(), ahead), (by_any, [got(105)])):
        for error in (REFUSED, SILENT):
            told = out(error, on, leadership=led, polls=polls)
            assert "no broker is known to have answered as the partition's leader" in told
    assert "returned a record of it to readers" in out(REFUSED, leadership=led, polls=[got(105)])
    by_n2 = out(REFUSED, down, leadership=[*led, *answers(2, 2, 110)])
    assert by_n2.startswith("n2, its leader in epoch 2, refused the sends")
    unknown = out(REFUSED, down, leadership=led, polls=[got(105)])
    assert unknown.startswith("its leader refused the sends")


def test_another_partition_that_went_on_shows_that_its_leader_was_up() -> None:
    def marks(node: str = "n3", partition: int = 9, at: int = 103) -> RunFacts:
        rows = [{"topic": "log-0", "partition": partition, "source": "list-offsets", "leader": 3,
                 "observer": node, "observed_ns": when * S, "high_watermark": mark}
                for when, mark in ((99, 1), (at, 7), (at + 2, 9), (180, 99))]  # fmt: skip
        table = pa.Table.from_pylist(rows, schema=TABLES["leadership"])
        return about(taking=taking(table, CALM * S))

    told = out(REFUSED, marks(), leadership=LED, polls=[got(105)])
    assert told.endswith(
        "although it answered ListOffsets, returned a record of it to readers and accepted records"
        " for log-0-9 (high watermark 7 to 9) meanwhile"
    )
    for other in (marks("n2"), marks(partition=group(about()).partition), marks(at=150)):
        assert "accepted records" not in out(REFUSED, other, leadership=LED)
    same = {"topic": "log-0", "partition": 9, "source": "list-offsets", "leader": 3}
    many = [{**same, "observer": "n3", "observed_ns": at, "high_watermark": at}
            for at in range(9_000)]  # fmt: skip
    (kept,) = taking(pa.Table.from_pylist(many, schema=TABLES["leadership"]), 0)
    assert len(kept.marks) == 3_000, "of a long run some are left out"
    assert kept.grew((0, 9)) == (0, 9)
    assert kept.grew((9, 10)) is None, "it was told but once"
    assert taking(TABLES["leadership"].empty_table(), None) == ()


@pytest.mark.parametrize(
    "error",
    [
        "NOT_ENOUGH_REPLICAS: Broker: Not enough in-sync replicas",
        "NotEnoughReplicasException: Messages are rejected since there are fewer in-sync replicas",
    ],
)
def test_an_error_of_the_leader_is_known_by_its_name(error: str) -> None:
    isr = {**leads(3, 1, at=110 * S, source="metadata"), "isr": [3]}
    told = out(error, leadership=[*LED, isr])
    name = error.partition(":")[0]
    assert told.startswith(f"n3, its leader in epoch 1, refused the sends with {name}: its ISR was")


@pytest.mark.parametrize(
    "error",
    [
        "no report came",
        "TimeoutException: Expiring 5 record(s) for log-0-0",
        "_TRANSPORT: x",
        "NetworkException: Disconnected",
        "MSG_SIZE_TOO_LARGE: Broker: x",
    ],
)
def test_what_no_broker_answered_is_laid_on_none(error: str) -> None:
    assert "refused" not in out(error, leadership=LED)
    assert "refused" not in out(error, leadership=answers(3, 1, 80, 98))


def test_an_error_that_any_broker_gives_is_not_laid_on_the_leader() -> None:
    told = out("TOPIC_AUTHORIZATION_FAILED", leadership=LED)
    assert told == (
        "brokers refused the sends with TOPIC_AUTHORIZATION_FAILED, though the plan sets no"
        " authorizer; n3, its leader in epoch 1, answered ListOffsets meanwhile"
    )
    assert "authorizer" not in out("UNKNOWN_TOPIC_OR_PARTITION", leadership=LED)
    plan = about().plan.model_copy(update={"broker": {"authorizer.class.name": "an.Authorizer"}})
    given = replace(about(), plan=plan)
    assert "authorizer" not in out("TOPIC_AUTHORIZATION_FAILED", given, leadership=LED)


def test_where_no_broker_answered_as_the_leader_none_is_called_one() -> None:
    assert out(REFUSED, leadership=answers(3, 1, 80, 98)) == (
        "brokers refused the sends with NOT_ENOUGH_REPLICAS, and no broker is known to have"
        " answered as the partition's leader in that time"
    )


def test_too_few_in_sync_are_named() -> None:
    def isr(at: int, *brokers: int) -> Row:
        return {**leads(3, 1, at=at * S, source="metadata"), "isr": [*brokers]}

    told = out(REFUSED, leadership=[*LED, isr(99, 2), isr(103, 1, 3), isr(110, 3), isr(130, 1)])
    assert "NOT_ENOUGH_REPLICAS: its ISR was n3, and min.insync.replicas is 2, although" in told
    assert "ISR" not in out(REFUSED, leadership=[*LED, isr(99, 3)])
    assert "ISR" not in out("CORRUPT_MESSAGE", leadership=[*LED, isr(103, 3)])
    # Who has not heard of the leader's epoch, or of its ISR, tells an old one later.
    late = [metadata("n1", 2, 0, 111, 1, 2, 3), metadata("n1", 3, 1, 112, 1, 2, 3)]
    assert "its ISR was n3, and" in out(REFUSED, leadership=[*LED, isr(110, 3), *late])
    assert "its ISR was n1, n2, n3" in out(REFUSED, leadership=[*LED, *late])


def test_of_two_leaders_none_is_blamed_alone() -> None:
    two = [*answers(3, 1, 80, 102), *answers(2, 2, 105, 110, 130)]
    told = out(REFUSED, leadership=two)
    assert told.startswith("its leader (n2, leader of epoch 2, or n3, leader of epoch 1")


def test_a_leader_that_answers_on_after_its_successors_election_may_be_the_one() -> None:
    two = (reign(1, 0, 0, 60, topic="log-0"), reign(2, 1, 55, 2000, topic="log-0"))
    stale = [
        *answers(1, 0, *range(20, 130, 2)),
        metadata("n2", 2, 1, 60),
        metadata("n2", 2, 1, 128),
    ]
    who = "its leader (n1, leader of epoch 0, or n2, leader of epoch 1)"
    for error, did in (
        (SILENT, "acknowledged nothing"),
        (REFUSED, f"refused the sends with {REFUSED}"),
    ):
        told = out(error, about(*two), leadership=stale)
        assert told.startswith(f"{who}, {did}, although it answered ListOffsets (by n1) meanwhile")
    heard = [row for row in stale if row["source"] == "metadata" or row["observed_ns"] < 60 * S]
    after = answers(2, 1, *range(62, 130, 2))
    told = out(REFUSED, about(*two), leadership=[*heard, *after])
    assert told.startswith("n2, its leader in epoch 1, refused the sends")


def looks(*ends: int, node: str = "n3") -> list[Row]:
    return [
        {"node": node, "observed_ns": (103 + at) * S, "log_end_offset": end}
        for at, end in enumerate(ends)
    ]


def test_a_leader_that_takes_nothing_says_not_why() -> None:
    told = out(SILENT, leadership=LED, replica_states=looks(1, 1, 1))
    assert told == (
        "n3, its leader in epoch 1, appended nothing (its log end offset stayed at 1), although"
        " it answered ListOffsets meanwhile; the partition accepted its last message at 90.000 s;"
        " clients recorded no answer, only _MSG_TIMED_OUT"
    )
    grew = out(SILENT, leadership=LED, replica_states=looks(1, 2, 3))
    assert "appended records (its log grew from 1 to 3) and acknowledged none, although" in grew
    for unknown in (looks(1, 1, node="n1"), looks(1), looks(3, 1)):
        told = out(SILENT, leadership=LED, replica_states=unknown)
        assert told.startswith("n3, its leader in epoch 1, acknowledged nothing, although it")


def test_without_an_answer_of_a_leader_in_that_time() -> None:
    told = out(SILENT, leadership=answers(3, 1, 80, 98))
    assert told == (
        "no broker is known to have answered as the partition's leader in that time, and clients"
        " gave up (_MSG_TIMED_OUT)"
    )


def stacks(**nodes: str) -> tuple[Milestone, ...]:
    return (*STONES, Milestone(name=STACKS, at_ns=120 * S, detail=nodes))


def test_threads_that_wait_for_each_other_are_named() -> None:
    on = about(milestones=stacks(n3="a deadlock: x waits for y", n1=""))
    assert "; its JVM reports threads that wait" in out(SILENT, on, leadership=LED)
    on = about(milestones=stacks(n1="a deadlock: x waits for y", n3=""))
    assert "; the JVM of n1 reports threads that wait" in out(SILENT, on, leadership=LED)
    assert "JVM" not in out(SILENT, about(milestones=stacks(n1="")), leadership=LED)


# slow-election


def names(leader: int, *seconds: int, node: str = "n1") -> list[Row]:
    row = {**leads(leader, 1, source="metadata"), "observer": node}
    return [{**row, "asked_ns": at * S - 1, "observed_ns": at * S} for at in seconds]


def vacant(on: RunFacts | None = None, *rows: Row, sends: tuple[Row, ...] = ()) -> str:
    leadership = [*answers(3, 1, 90, 99), *rows, *names(-1, 99, 131, node="n2")]
    return reason(
        slow_election.CHECKER, group(on or about(), leadership=leadership, sends=[*sends])
    )


ELECTED = reign(3, 1, 0, 900, topic="log-0")


def test_controllers_that_elected_nobody() -> None:
    nobody = reign(-1, 2, 90, 900, topic="log-0")
    told = vacant(about(nobody))
    assert isinstance(told, Proved)
    assert told == (
        "according to their log, the controllers had ended epoch 1 and had not elected"
        " a leader since"
    )
    assert "not elected a leader since" not in vacant(about(replace(nobody, partition=1)))


@pytest.mark.parametrize(
    ("isr", "leaders", "words"),
    [
        ([1, 2, 3], {1: ("n101",)},
         ("the controllers, led by n101, had ended epoch 1 and had not elected a leader since,"
          " although n2 was in the ISR and answered Metadata requests until the end")),
        ([3], {1: ("n101",), 2: ("n102",)},
         ("the controllers had ended epoch 1 and had not elected a leader since: no broker of the"
          " ISR (n3) answered Metadata requests")),
        ([], {},
         ("the controllers had ended epoch 1 and had not elected a leader since: no broker was in"
          " the ISR")),
    ],
)  # fmt: skip
def test_whether_an_election_lacked_a_candidate(
    isr: list[int], leaders: dict[int, tuple[str, ...]], words: str
) -> None:
    nobody = reign(-1, 2, 90, 900, topic="log-0")
    on = about(nobody, quorum=QuorumFacts(leaders=leaders))
    told = vacant(on, written(-1, 2, 7, *isr))
    assert told == f"according to their log, {words}"
    assert isinstance(told, Proved) is (2 in isr)


def test_a_broker_that_was_down_or_answered_long_before_is_not_said_to_be_up() -> None:
    nobody = reign(-1, 2, 90, 900, topic="log-0")
    away = Absence(node="n2", from_ns=102 * S, until_ns=140 * S)
    in_isr = written(-1, 2, 7, 2)
    less = (
        "not elected a leader since: no broker of the ISR (n2) answered Metadata requests until"
        " the end"
    )
    down = vacant(about(nobody, absences=(away,)), in_isr)
    assert down.endswith(less)
    assert not isinstance(down, Proved)
    before = replace(away, from_ns=10 * S, until_ns=20 * S)
    assert isinstance(vacant(about(nobody, absences=(before,)), in_isr), Proved)
    early = written(-1, 2, 7, 1), *names(-1, 101, 127, node="n1")
    assert vacant(about(nobody), *early).endswith(less.replace("n2", "n1"))
    late = written(-1, 2, 7, 1), *names(-1, 101, 129, node="n1")
    assert vacant(about(nobody), *late).endswith(
        "n1 was in the ISR and answered Metadata requests until the end"
    )


def test_controllers_whose_choice_no_broker_names() -> None:
    told = vacant(about(ELECTED), *names(3, 95))
    assert told.startswith(
        "according to their log, the controllers had elected n3 in epoch 1, and brokers reported"
    )
    told = vacant(about(ELECTED), *names(3, 90), *names(-1, 130))
    assert told == (
        "according to their log, the controllers had elected n3 in epoch 1, but brokers reported"
        " no leader (last at 90.000 s), and n3 did not answer as the leader: brokers did not"
        " adopt this decision, or did not report it"
    )


def test_without_the_controllers_log_nothing_is_said_of_it() -> None:
    unknown = (
        "no broker reported a leader; the run's record does not show whether the"
        " controllers had elected one"
    )
    assert vacant(about()) == unknown
    two = (replace(ELECTED, until_ns=120 * S), reign(2, 2, 110, 900, topic="log-0"))
    assert vacant(about(*two)) == unknown, "which of them led in the midst is not certain"


def test_who_was_named_was_up_or_down() -> None:
    named = [*names(3, 95), *names(3, 110, node="n3"), *names(3, 131, node="n3")]
    told = vacant(about(ELECTED), *named)
    assert told.endswith(
        "n3 as the leader, but n3 did not answer as the leader, although n3 was up and answered"
        " Metadata requests"
    )
    silent = vacant(about(ELECTED), *names(3, 95), *names(3, 131, node="n1"))
    assert silent.endswith("but n3 did not answer as the leader")
    down = Absence(node="n3", from_ns=90 * S, until_ns=140 * S)
    away = vacant(about(ELECTED, absences=(down,)), *names(3, 95))
    assert away.endswith("leader, but n3 was down during the whole time")
    back = replace(down, until_ns=105 * S)
    assert "down" not in vacant(about(ELECTED, absences=(back,)), *names(3, 95))


def test_brokers_may_name_another_one_than_the_controllers() -> None:
    told = vacant(about(replace(ELECTED, leader=2)), *names(3, 95))
    assert told.startswith(
        "according to their log, the controllers had elected n2 in epoch 1, but brokers reported"
    )


def test_what_brokers_refused_sends_with_is_named() -> None:
    refused = (failed(f"{REFUSED}: too few", 110), failed(SILENT, 111), failed(SILENT, 112))
    told = vacant(about(ELECTED), *names(3, 95), sends=refused)
    assert told.endswith("; 1 sends got NOT_ENOUGH_REPLICAS")
    assert "refused" not in vacant(about(ELECTED), *names(3, 95), sends=refused[1:])
    early = (failed(REFUSED, 90),)
    assert "refused" not in vacant(about(ELECTED), *names(3, 95), sends=early)


# broker-ended, broker-hit-from-outside


def ended(checker: Checker, code: str, said: str = "", *hits: Disturbance) -> str:
    stones = (
        Milestone(name=ENDED, at_ns=50 * S, detail={"node": "n1", "code": code, "said": said}),
        Milestone(name=NOTED, at_ns=60 * S, detail={"lives": "4"}),
    )
    on = facts(plan={"nodes": 3, "heap_mb": 64}, milestones=stones, disturbances=hits)
    return reason(checker, whole_run(on))


ITSELF, OUTSIDE = broker_ended.CHECKER, broker_ended.OUTSIDE_CHECKER


@pytest.mark.parametrize(
    ("code", "said", "words"),
    [
        ("3", "java.lang.OutOfMemoryError: Java heap space", "its Java heap (64 MB by the plan)"),
        ("3", "java.lang.OutOfMemoryError: Metaspace", "ran out of the kind of memory that its"),
        ("1", "ERROR Halting because", "it halted itself, as Kafka does when it cannot continue"),
        ("1", "FATAL Shutdown broker", "only its last output shows the reason"),
        ("1", "", "it exited by itself and without any output"),
        ("-11", "", "such a signal comes from a crash"),
    ],
)
def test_how_a_broker_ended_by_itself(code: str, said: str, words: str) -> None:
    told = ended(ITSELF, code, said)
    assert words in told
    assert told.endswith("; no fault had hit n1 before")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("-9", "the kernel's OOM killer did"),
        ("stopped", "neither the kernel nor a broker sends SIGSTOP"),
        ("-15", "neither a broker nor the OOM killer sends this signal"),
        ("?", "its exit code was not observed"),
    ],
)
def test_who_hit_a_broker_from_outside(code: str, words: str) -> None:
    told = ended(OUTSIDE, code)
    assert words in told
    assert ("OOM killer did" in told) == (code == "-9"), "it sends no other signal"


def test_the_last_fault_of_the_broker_is_named() -> None:
    hit = Disturbance(
        kind="isolate", begun_ns=9 * S, confirmed_ns=10 * S, ended_ns=20 * S,
        nodes=frozenset({"n1"}),
    )  # fmt: skip
    assert ended(ITSELF, "1", "", hit).endswith(
        "; the last fault that hit n1, isolate, ended at 20.000 s"
    )
    lasting = replace(hit, ended_ns=70 * S)
    assert ended(ITSELF, "1", "", hit, lasting).endswith(
        "; the last fault that hit n1, isolate, ended at 20.000 s"
    )
    later = replace(lasting, kind="pause", confirmed_ns=11 * S)
    assert ended(ITSELF, "1", "", hit, later).endswith(
        "; pause of n1 was in force, which a broker must survive"
    )
    for kind, what in (
        ("processor", "a broker must survive"),
        ("memory", "does not explain the end"),
    ):
        wanting = replace(later, kind=kind)
        assert ended(OUTSIDE, "-9", "", wanting).endswith(
            f"; {kind} of n1 was in force, which {what}"
        )
    for other in (
        replace(hit, nodes=frozenset({"n2"})),
        replace(hit, confirmed_ns=-1),
        replace(hit, confirmed_ns=51 * S),
    ):
        assert ended(ITSELF, "1", "", other).endswith("; no fault had hit n1 before")


def test_what_the_broker_led_is_named_where_the_controllers_log_is_certain() -> None:
    def told(*reigns: Reign) -> str:
        stones = (
            Milestone(name=ENDED, at_ns=50 * S, detail={"node": "n1", "code": "1"}),
            Milestone(name=NOTED, at_ns=60 * S, detail={"lives": "4"}),
        )
        plan = {"nodes": 3, "partitions": 2}
        on = facts(plan=plan, milestones=stones, reigns=reigns)
        return reason(ITSELF, whole_run(on)).rpartition("; ")[2]

    mine, other = (reign(1, 0, 0, 900, topic="log-0", partition=at) for at in (0, 1))
    assert told(mine, other) == "at that time it led log-0-0, log-0-1"
    assert told(mine, replace(other, leader=2)) == "at that time it led log-0-0"
    nobodys = (replace(mine, leader=2), replace(other, leader=3))
    assert told(*nobodys) == "at that time it led no partition of the run"
    close = (replace(mine, until_ns=48 * S), reign(2, 1, 47, 900, topic="log-0"))
    assert told(*close, other) == "no fault had hit n1 before", "an election was close"
    assert told(mine) == "no fault had hit n1 before", "of the other partition nothing is known"
    assert told() == "no fault had hit n1 before"


# host-not-restored, fault-without-effect, not-enough-traffic


@pytest.mark.parametrize(
    ("what", "change", "words"),
    [
        ("the nft table logquake", "exists after the run, but did not exist before (x)",
         "; `nft delete table ip logquake` removes it"),
        ("the link lq0", "exists after the run, but did not exist before (x)",
         "; `ip link delete lq0` removes it"),
        ("process 7", "exists after the run, but did not exist before (x)", "did not remove it"),
        ("a mount", "existed before the run, but no longer exists (x)", "clean-up removed it"),
        ("a mount", "was different before the run (x, now y)", "did not restore it"),
    ],
)  # fmt: skip
def test_what_the_run_did_to_its_host(what: str, change: str, words: str) -> None:
    stones = (Milestone(name="audited", at_ns=9 * S, detail={what: change}),)
    told = reason(not_restored.CHECKER, whole_run(facts(milestones=stones)))
    assert words in told
    assert ("`" in told) == ("`" in words)


def fault(at: int, *, seen: int | None = None, why: str = "", kind: str = "kill") -> Row:
    return {"fault_id": at, "kind": kind, "spec": json.dumps({"family": kind}),
            "targets": ["n2"], "requested_ns": at * S, "confirmed_ns": seen and seen * S,
            "effect": json.dumps({"without_effect": why})}  # fmt: skip


def missed(*rows: Row, stones: tuple[Milestone, ...] = (), **about: object) -> list[str]:
    plan = {"nemesis": ["kill"], "minimums": {"confirmed_faults": 2}}
    known = facts(plan=plan, milestones=stones, **about)
    return reasons(faults.CHECKER, whole_run(known, faults=[*rows]))


def test_what_the_witness_of_a_fault_saw() -> None:
    (told,) = missed(fault(16, why="n2 did not end"), fault(26))
    assert told == (
        "kill of n2, begun at 16.000 s, had no effect: n2 did not end; kill of n2, begun at"
        " 26.000 s, had no observed effect"
    )
    (alone,) = missed(fault(16, seen=17), fault(26))
    assert "16.000 s" not in alone, "that one was confirmed"
    assert missed(fault(16, seen=17)) == [
        "all faults that began were confirmed: the plan asks for more faults than began"
    ]
    assert missed()[0].startswith("it never began")


def test_a_fault_that_was_never_begun_is_not_said_to_have_been() -> None:
    waited = {"when": "leader epoch of log-0-1 >= 9", "came": False, "waited_s": 12.0,
              "saw": ["leader n2 in epoch 0"]}  # fmt: skip
    late = "the main phase ended before earlier faults had ended"
    rows = [
        {
            **fault(at),
            "targets": None,
            "spec": json.dumps({"family": "kill", "begun": False, **more}),
        }
        for at, more in ((16, {"waited": waited}), (17, {"without_effect": late}))
    ]
    about = whole_run(facts(plan={"nemesis": ["kill"]}), faults=rows)
    (found,) = faults.CHECKER.check(about).anomalies
    assert found.sentence.startswith("no fault of kind kill was confirmed, and none was started")
    (told,) = missed(*rows)
    assert told == (
        "kill waited 12.0 s for leader epoch of log-0-1 >= 9, which did not come; saw leader n2"
        f" in epoch 0; kill never began: {late}"
    )


def test_a_target_that_had_ended_before_is_named() -> None:
    def gone(node: str, at: int) -> tuple[Milestone, ...]:
        return (Milestone(name=ENDED, at_ns=at * S, detail={"node": node, "code": "143"}),)

    row = fault(16, why="n2 was not running")
    assert missed(row, stones=gone("n2", 15))[0].endswith(
        " (n2 was found to have ended at 15.000 s, exit code 143)"
    )
    assert "found to have ended" not in missed(row, stones=gone("n2", 17))[0]
    assert "found to have ended" not in missed(row, stones=gone("n1", 15))[0]


def test_of_a_target_that_did_not_run_its_answers_are_told() -> None:
    row = fault(16, why="no broker runs on n2")
    seen = {("n2", 16 * S): (15 * S, 24 * S)}
    (unseen,) = set(missed(row, answers=seen))
    assert unseen == (
        "kill of n2, begun at 16.000 s, had no effect: no broker runs on n2, although it had"
        " answered at 15.000 s and no recorded event ended it; it answered next at 24.000 s: its"
        " end within these 1.000 s was not observed, or the check of its process was wrong"
    )
    heal = {"pid_before": {"n2": 43}, "was_gone": ["n2"], "processes": [{"node": "n2", "pid": 53}]}
    (healed,) = set(missed({**row, "heal_effect": json.dumps(heal)}, answers=seen))
    assert healed == (
        "kill of n2, begun at 16.000 s, had no effect: no broker runs on n2, although it had"
        " answered at 15.000 s and no recorded event ended it: its heal found that its process 43"
        " had ended, and started 53"
    )
    for wrong in ({**heal, "was_gone": []}, {**heal, "processes": []}, {"was_gone": ["n2"]}):
        assert missed({**row, "heal_effect": json.dumps(wrong)}, answers=seen)[0] == unseen
    earlier = Disturbance(kind="stop", begun_ns=9 * S, ended_ns=20 * S, nodes=frozenset({"n2"}))
    (known,) = set(missed(row, answers=seen, disturbances=(earlier,)))
    assert known.endswith(
        ": stop of n2, begun at 9.000 s, may have ended it; it answered next at 24.000 s"
    )
    over = replace(earlier, ended_ns=14 * S)
    assert missed(row, answers=seen, disturbances=(over,))[0] == unseen, "it answered since"
    assert missed(row)[0].endswith("no broker runs on n2, and n2 had not answered before")
    late = missed(fault(16, why="n2 did not end"), answers=seen)[0]
    assert "answered" not in late, "it ran"


def test_answers_around_a_fault_that_nobody_saw_work() -> None:
    told = pa.Table.from_pylist(
        [{"observer": node, "asked_ns": at, "observed_ns": at and at + 1}
         for node, at in (("n2", None), ("n2", 15), ("n1", 16), ("n2", 19), ("n2", 22))]
    )  # fmt: skip
    hit = Disturbance(kind="kill", begun_ns=20, ended_ns=30, nodes=frozenset({"n2", "n3"}))
    assert answers_around(told, [hit]) == {("n2", 20): (20, 23), ("n3", 20): (-1, -1)}
    assert not answers_around(told, [replace(hit, confirmed_ns=21)])


def op(at: int, *, f: str = "send", outcome: str = "ok", messages: int = 1, **more: object) -> Row:
    return {"op_id": at, "process": at, "f": f, "phase": "main", "invoke_ns": at * S,
            "complete_ns": at * S + 1, "outcome": outcome, "messages": messages,
            **more}  # fmt: skip


def too_little(rows: list[Row], *, hits: list[Row] | None = None, **minimums: int) -> list[str]:
    least = {"ok_sends": 1, "ok_polls": 0, "around_faults": 0, **minimums}
    on = whole_run(facts(plan={"minimums": least}), ops=rows, faults=hits or [])
    return reasons(traffic.CHECKER, on)


def test_why_there_was_too_little_traffic() -> None:
    lost = [
        op(1, outcome="info", error="_MSG_TIMED_OUT"),
        op(2, outcome="fail", error="X: y"),
        op(3, outcome="fail", error="X: z"),
        op(4),
        op(5, f="poll", outcome="fail"),
    ]
    assert too_little(lost, ok_sends=9) == [
        "3 of the 4 operations that began failed, mostly with X"
    ]
    assert too_little([op(1), op(2)], ok_sends=3) == [
        "none of the 2 operations failed: clients began too few of them for the plan's minimum of 3"
    ]
    empty = [op(1, f="poll", messages=0), op(2, f="poll"), op(3)]
    assert too_little(empty, ok_polls=2) == ["no operation failed, but 1 of 2 returned no message"]
    assert too_little([op(1)], ok_polls=2) == [
        "clients began no operations that could count as polls in the main phase"
    ]
    stuck = [op(at, outcome="info", error="_MSG_TIMED_OUT: x") for at in (1, 2)]
    assert too_little(stuck, ok_polls=2)[-1] == (
        "clients began no operations that could count as polls in the main phase; all 2 other"
        " operations that they began in this phase failed, mostly with _MSG_TIMED_OUT"
    )
    assert too_little([op(1, phase="warmup")], ok_sends=2) == [
        "clients began no operations that could count as sends in the main phase"
    ]


def test_around_faults_only_the_operations_of_that_time_count() -> None:
    hit = {**fault(10, seen=10), "healed_ns": 20 * S}
    rows = [op(5), op(15, outcome="fail", error="X"), op(25), op(26, outcome="fail", error="Y")]
    (during,) = too_little(rows, hits=[hit], around_faults=1)
    assert during == "1 of the 1 operations that began failed, mostly with X"
    (after,) = too_little([op(5), op(15), op(26, outcome="info")], hits=[hit], around_faults=1)
    assert after == "1 of the 1 operations that began failed"
