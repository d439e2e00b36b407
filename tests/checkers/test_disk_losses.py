"""What every replica lost with its power or its disk was never promised to last."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from checkers import (
    duplicate,
    high_watermark_regression,
    inconsistent_offsets,
    lost_write,
    poll_order,
    unseen,
)
from checkers.contract import allowed, doubts
from checkers.disk_losses import all_lost, disk_losses
from checkers.facts import DiskLoss, RunFacts
from checkers.protocol import Checker
from checkers.run import judge_runs
from checkers.stored import load_facts
from results.record.tables import TABLES
from results.record.terms import UNMEASURED, Judge, Validity
from results.record.values import pack_value
from tests.checkers.faithful import FaithfulRun
from tests.checkers.faithful_clients import Row
from tests.checkers.partition_rows import (
    A,
    B,
    C,
    S,
    ack,
    facts,
    final_read,
    found,
    group,
    isr,
    leads,
    log,
    read,
    state,
    timed_out,
)  # fmt: skip

D = pack_value(1, 4)
ONE = {"replication": 1, "min_insync": 1}


def cut(
    *nodes: str,
    after: int = 0,
    before: int = 1,
    until: int = 2 * S,
    partition: int = 0,
    excuse: str = "power-loss",
    began: int = -1,
    healed: int = -1,
) -> DiskLoss:
    return DiskLoss(
        nodes=frozenset(nodes), topic="log-0", partition=partition, end_after=after,
        end_before=before, until_ns=until, began_ns=began, healed_ns=healed, excuse=excuse,
    )  # fmt: skip


def about(*cuts: DiskLoss) -> RunFacts:
    return facts(plan={"replication": 2, "nodes": 2}, disk_losses=cuts)


def lost(
    *cuts: DiskLoss, nodes: tuple[str, ...] = ("n1", "n2"), acked_ns: int = S
) -> tuple[str, ...]:
    """Return what excuses the loss of offset 0, by the logs of some nodes, which are empty."""
    on = group(
        about(*cuts),
        sends=[ack(A, 0, at=acked_ns)],
        leadership=[leads(1, 0)],
        replica_states=[state(node, 0) for node in nodes],
    )
    (anomaly,) = found(lost_write.CHECKER, on).anomalies
    return anomaly.excuses


def test_a_loss_is_excused_if_every_replica_lost_power_with_it() -> None:
    assert lost(cut("n1"), cut("n2")) == ("power-loss",)
    assert lost(cut("n1", "n2")) == ("power-loss",)
    assert lost(cut("n1"), cut("n2", before=0)) == ("power-loss",)  # n2 had not got it yet.


def test_a_loss_is_not_excused_if_a_replica_should_have_kept_it() -> None:
    assert lost() == ()
    assert lost(cut("n1")) == ()  # n2 did not lose power.
    assert lost(cut("n1", "n2", after=1, before=2)) == ()  # It was flushed everywhere.
    assert lost(cut("n1"), cut("n2", after=1, before=2)) == ()  # It was flushed on n2.
    assert lost(cut("n1", "n2", before=0)) == ()  # It was not there to be cut.
    assert lost(cut("n1", "n2", until=S // 2)) == ()  # It was acknowledged after that.
    assert lost(cut("n1", "n2", partition=1)) == ()
    assert lost(cut("n1"), nodes=("n1",)) == ()  # Nothing is known of the other replica.


def test_where_a_log_was_not_read_its_node_is_unknown_among_the_others() -> None:
    def excuses(*hit: str, read: int = 2) -> tuple[str, ...]:
        on = group(
            facts(plan={"replication": 3, "nodes": 5}, disk_losses=(cut(*hit),)),
            sends=[ack(A, 0)],
            leadership=[leads(1, 0)],
            replica_states=[state(f"n{node}", 0) for node in range(1, 1 + read)],
        )
        (anomaly,) = found(lost_write.CHECKER, on).anomalies
        return anomaly.excuses

    assert excuses("n1", "n2", "n3", read=3) == ("power-loss",)
    assert excuses("n1", "n2", "n3") == ("last-copies",)
    assert excuses("n1", "n2") == ()
    assert excuses("n1", "n4", "n5", read=3) == ()


def test_a_busy_client_may_know_late_what_was_acknowledged_before_the_brokers_died() -> None:
    late_ns = 400_000_000  # No Kafka that was started then answers anybody by now.
    assert lost(cut("n1", "n2"), acked_ns=2 * S + late_ns) == ("power-loss",)
    assert lost(cut("n1", "n2"), acked_ns=2 * S + late_ns + 1) == ()
    # When they were started again nobody knows.
    assert lost(cut("n1", "n2", until=-1), acked_ns=late_ns - 1) == ()
    # What may have happened may be over: that allows nothing, and takes the trust.
    unsure = cut("n1", "n2", excuse="unconfirmed-fault")
    assert lost(unsure, acked_ns=2 * S) == ("unconfirmed-fault",)
    assert lost(unsure, acked_ns=2 * S + 1) == ()


def test_a_reference_broker_that_was_started_may_acknowledge_at_once() -> None:
    plan = {"replication": 2, "nodes": 2, "system": "reference"}
    for acked_ns, excuses in ((2 * S, ("power-loss",)), (2 * S + 1, ())):
        on = group(
            facts(plan=plan, disk_losses=(cut("n1", "n2"),)),
            sends=[ack(A, 0, at=acked_ns)],
            leadership=[leads(1, 0)],
            replica_states=[state(node, 0) for node in ("n1", "n2")],
        )
        (anomaly,) = found(lost_write.CHECKER, on).anomalies
        assert anomaly.excuses == excuses


def test_what_was_acknowledged_without_an_offset_may_have_gone_with_all_disks() -> None:
    """Who repeats what is there already may be told no offset (DUPLICATE_SEQUENCE_NUMBER)."""

    def excuses(*cuts: DiskLoss) -> tuple[str, ...]:
        states = [state("n1", 0), state("n2", 0)]
        on = group(about(*cuts), sends=[ack(A, None)], leadership=[leads(1, 0)],
                   replica_states=states)  # fmt: skip
        (anomaly,) = found(lost_write.CHECKER, on).anomalies
        return anomaly.excuses

    assert excuses(cut("n1", "n2", after=5, before=9)) == ("last-copies",)
    assert excuses(cut("n1")) == ()
    assert excuses(cut("n1", "n2", until=S // 2)) == ()
    assert excuses() == ()


def test_where_no_files_tell_who_has_a_replica_every_broker_may_have_one() -> None:
    """The harness died, and a broker's files with it: the run is unknown, and no broker's fault."""
    assert lost(cut("n1", "n2"), nodes=("n1",)) == ("power-loss",)

    def went_back(*cuts: DiskLoss, **rows: list[Row]) -> tuple[str, ...]:
        told = [
            {**leads(1, epoch, at=at * S), "high_watermark": mark, "asked_ns": at * S}
            for at, epoch, mark in ((1, 0, 1), (20, 1, 0))
        ]
        on = group(about(*cuts), leadership=told, **rows)
        (anomaly,) = found(high_watermark_regression.CHECKER, on).anomalies
        return anomaly.excuses

    for states in (
        [],
        [state("n1", 0)],
        [{**state(node, 0), "snapshot": "crash"} for node in ("n1", "n2")],
    ):
        assert went_back(cut("n1", "n2"), replica_states=states) == ("power-loss",)
        assert went_back(cut("n1"), replica_states=states) == ()
    one = [{**state("n1", 0), "snapshot": "crash"}]
    alone = facts(plan={**ONE, "nodes": 2}, disk_losses=(cut("n1"),))
    on = group(alone, sends=[ack(A, 0)], polls=[read(B, 0)], replica_states=one)
    (anomaly,) = found(inconsistent_offsets.CHECKER, on).anomalies
    assert anomaly.excuses == ("power-loss",)


def test_the_end_of_a_log_that_nobody_has_is_unseen_and_excused_as_a_loss_is() -> None:
    """Reads that are complete do not tell of what stood behind their end; only a log would."""

    def excuses(*cuts: DiskLoss, **rows: list[Row]) -> tuple[str, ...]:
        on = group(about(*cuts), sends=[ack(A, 0)], final_reads=[final_read(0)], **rows)
        (anomaly,) = found(unseen.UNSEEN_CHECKER, on).anomalies
        return anomaly.excuses

    assert excuses(cut("n1", "n2")) == ("power-loss",)
    assert excuses(cut("n1")) == ()
    there = [row for node in ("n1", "n2") for row in log(node, (0, A))]
    states = [state("n1", 1), state("n2", 1)]
    kept = {"replica_records": there, "replica_states": states, "leadership": [leads(1, 0)]}
    assert excuses(cut("n1", "n2"), **kept) == ()


def test_what_takes_the_place_of_a_lost_record_is_excused_as_the_loss_is() -> None:
    rows = {"sends": [ack(A, 0)], "polls": [read(B, 0)],
            "replica_states": [state("n1", 1), state("n2", 1)]}  # fmt: skip
    (excused,) = found(
        inconsistent_offsets.CHECKER, group(about(cut("n1", "n2")), **rows)
    ).anomalies
    assert excused.excuses == ("power-loss",)
    (other,) = found(inconsistent_offsets.CHECKER, group(about(cut("n1")), **rows)).anomalies
    assert other.excuses == ()


def tells(*brokers: int, at: int, observer: str = "n2", **changes: object) -> Row:
    """Metadata of one broker that came in a second after somebody asked."""
    return {**isr(*brokers), "observer": observer, "incarnation": 1, "asked_ns": at - S,
            "observed_ns": at, **changes}  # fmt: skip


def one_by_one(*told: Row, healed: int = 15 * S, until: int = 12 * S) -> tuple[str, ...]:
    """Return what excuses a loss if n1 was wiped from 10 s on and n2 from 30 s on."""
    wipes = (
        cut("n1", until=until, began=10 * S, healed=healed, excuse="wipe"),
        cut("n2", until=32 * S, began=30 * S, healed=36 * S, excuse="wipe"),
    )
    on = group(
        about(*wipes),
        sends=[ack(A, 0)],
        leadership=[leads(1, 0), *told],
        replica_states=[state("n1", 0), state("n2", 0)],
    )
    (anomaly,) = found(lost_write.CHECKER, on).anomalies
    return anomaly.excuses


LEFT, BACK = tells(2, at=11 * S), tells(1, 2, at=20 * S)


def test_what_was_fetched_again_before_the_last_replica_was_hit_excuses_nothing() -> None:
    assert one_by_one(LEFT, BACK) == ()
    assert one_by_one({**LEFT, "source": "zookeeper"}, {**BACK, "source": "zookeeper"}) == ()


def test_as_long_as_nobody_knows_that_it_was_fetched_again_it_may_be_the_disks() -> None:
    assert one_by_one() == ("wipe",)
    assert one_by_one(LEFT) == ("wipe",)
    assert one_by_one(BACK) == ("wipe",)  # Of before, for all that one knows.
    assert one_by_one(LEFT, tells(1, 2, at=30 * S)) == ("wipe",)  # n2 was being wiped.
    assert one_by_one(LEFT, {**BACK, "asked_ns": 12 * S - 1}) == ("wipe",)  # n1 was down.
    assert one_by_one(LEFT, BACK, healed=-1) == ("wipe",)
    assert one_by_one(LEFT, BACK, healed=30 * S) == ("wipe",)
    assert one_by_one(tells(2, at=10 * S - 1), BACK) == ("wipe",)  # It left before its wipe.
    # Another broker may tell what was, and so may one that was started anew.
    assert one_by_one(LEFT, {**BACK, "observer": "n3"}) == ("wipe",)
    assert one_by_one(LEFT, {**BACK, "incarnation": 2}) == ("wipe",)
    # Who else left and came back says nothing of n1.
    assert one_by_one(tells(1, at=11 * S), BACK) == ("wipe",)


def test_the_excuse_names_what_took_it() -> None:
    assert lost(cut("n1", "n2", excuse="wipe")) == ("wipe",)
    assert lost(cut("n1", excuse="bit-flip"), cut("n2")) == ("bit-flip", "power-loss")
    # What hit nobody who had it explains nothing.
    elsewhere = cut("n3", excuse="bit-flip")
    assert lost(cut("n1", excuse="wipe"), cut("n2", excuse="wipe"), elsewhere) == ("wipe",)


def rebuilt(checker: Checker, *cuts: DiskLoss, **rows: list[Row]) -> tuple[str, ...]:
    """Return the excuses of the one anomaly of a log that was emptied and written again."""
    logs = [row for node in ("n1", "n2") for row in log(node, (0, B), (0, C), (0, D))]
    states = [state("n1", 3), state("n2", 3)]
    on = group(about(*cuts), replica_records=logs, replica_states=states, **rows)
    (anomaly,) = found(checker, on).anomalies
    return anomaly.excuses


def seen(value: int, offset: int, *, op: int) -> Row:
    """A read by process 8, a second after op 7."""
    row = read(value, offset, op=op, phase="main")
    return {**row, "process": 8, "invoke_ns": (op - 7) * S - 5, "complete_ns": (op - 7) * S}


def test_a_reader_that_stood_on_what_was_lost_may_miss_what_took_its_place() -> None:
    rows = {
        "sends": [ack(B, 0, op=1, at=4 * S), ack(C, 1, op=2, at=4 * S), ack(D, 2, op=3, at=4 * S)],
        "polls": [seen(A, 0, op=8), seen(D, 2, op=9)],
        "leadership": [leads(1, 0)],
    }
    skips = poll_order.SKIP_CHECKER
    taken = cut("n1", "n2", until=10 * S, excuse="wipe")
    assert rebuilt(skips, taken, **rows) == ("wipe",)
    assert rebuilt(skips, cut("n1", until=10 * S), **rows) == ()
    assert rebuilt(skips, cut("n1", "n2", after=1, before=2, until=10 * S), **rows) == ()


def test_a_record_that_was_read_and_lost_may_be_written_again() -> None:
    rows = {
        "sends": [timed_out(B)],
        "polls": [seen(B, 5, op=8), seen(B, 0, op=9)],
        "leadership": [leads(1, 0)],
    }
    assert rebuilt(duplicate.CHECKER, cut("n1", "n2", before=6, until=10 * S), **rows) == (
        "power-loss",
    )
    assert rebuilt(duplicate.CHECKER, cut("n1", before=6, until=10 * S), **rows) == ()
    # It was read after the brokers were back: then it was lost a second time.
    assert rebuilt(duplicate.CHECKER, cut("n1", "n2", before=6, until=S // 2), **rows) == ()


def test_of_a_copy_that_was_lost_its_own_first_read_tells_when_it_was_there() -> None:
    """B was read at offset 5; the disks took it by 10 s, and it was written again at offset 0."""

    def excuses(*polls: Row) -> tuple[str, ...]:
        rows = {"sends": [timed_out(B)], "polls": [*polls], "leadership": [leads(1, 0)]}
        taken = cut("n1", "n2", before=10, until=10 * S)
        return rebuilt(duplicate.CHECKER, taken, **rows)

    lost, late = seen(B, 5, op=8), seen(B, 5, op=20)
    assert excuses(lost, late) == ("power-loss",)
    assert excuses(lost, seen(B, 0, op=20)) == ("power-loss",)  # What is left may be read late.
    assert excuses(late) == ()
    other = pack_value(1, 5)
    for early in (seen(A, 5, op=8), seen(other, 5, op=8), seen(B, 0, op=8), seen(B, 9, op=8)):
        assert excuses(late, early) == ()


def test_a_copy_that_one_log_holds_beside_another_value_was_not_lost() -> None:
    """A damaged log may have two records at one offset, and no reader was given the second."""
    twice = [*log("n1", (0, A)), *log("n1", (0, B), (0, B))]
    on = group(about(cut("n1", "n2")), replica_records=twice, leadership=[leads(1, 0)],
               replica_states=[state("n1", 2), state("n2", 0)])  # fmt: skip
    (anomaly,) = found(duplicate.CHECKER, on).anomalies
    assert (anomaly.evidence["offsets"], anomaly.excuses) == ([0, 1], ())


def test_the_contract_allows_it_and_the_strict_judge_does_not() -> None:
    for excuse in ("power-loss", "wipe", "bit-flip"):
        for name in ("lost-write", "inconsistent-offsets", "poll-skip", "uncommitted-read"):
            assert allowed(name, (excuse,), Judge.CONTRACT) == excuse
            assert allowed(name, (excuse,), Judge.STRICT) is None
        for name in ("phantom", "epoch-regression", "two-leaders-in-epoch"):
            assert allowed(name, (excuse,), Judge.CONTRACT) is None


def fault(**changes: object) -> Row:
    replicas = [
        {"topic": "log-0", "partition": 0, "log_end_before": 9, "log_end_after": after}
        for after in (3, 5)
    ]
    return {
        "fault_id": 1, "kind": "power-loss", "spec": "{}", "targets": ["n1", "n2"],
        "requested_ns": S, "confirmed_ns": 2 * S, "effect": json.dumps({"replicas": replicas}),
        **changes,
    }  # fmt: skip


def told(row: Row) -> tuple[DiskLoss, ...]:
    return disk_losses(pa.Table.from_pylist([row], schema=TABLES["faults"]))


def test_losses_are_read_from_the_effects_of_confirmed_faults() -> None:
    whole = cut("n1", "n2", after=5, before=9, began=S)
    assert told(fault()) == (replace(whole, least_after=3, replicas=2),)
    assert told(fault(kind="kill")) == ()
    for damaged in (None, "{", "{}", "[]", '{"replicas": 7}', '{"replicas": [{"topic": "log-0"}]}'):
        assert told(fault(effect=damaged)) == ()


def test_a_lost_flush_costs_what_a_power_loss_does() -> None:
    named = fault(kind="any", spec='{"family": "lost-flushes"}')
    assert told(named) == told(fault())
    assert told(fault(kind="any", spec='{"family": "disk-errors"}')) == ()
    (unsure,) = told({**named, "confirmed_ns": None, "effect": None})
    assert unsure.excuse == "unconfirmed-fault"
    assert unsure.nodes == {"n1", "n2"}


def test_numbers_that_cannot_be_excuse_nothing() -> None:
    place = {"topic": "log-0", "partition": 0, "base_offset": 4, "log_end": 9}
    for damaged in (
        json.dumps({"flips": [{**place, "partition": float("inf")}], "ran_s": 1}),
        json.dumps({"flips": [{**place, "log_end": float("nan")}], "ran_s": 1}),
        "[" * 100_000,
    ):
        assert told(fault(kind="bit-flip", effect=damaged)) == ()
    endless = json.dumps({"flips": [place], "ran_s": float("inf")})
    assert [each.until_ns for each in told(fault(kind="bit-flip", effect=endless))] == [-1]
    for damaged in (json.dumps({"took_s": float("-inf")}), json.dumps({"took_s": 1e300})):
        (cut_off,) = told(fault(healed_ns=9 * S, heal_effect=damaged))
        assert cut_off.until_ns == 2 * S


def test_each_kind_tells_in_its_own_words_what_it_took() -> None:
    place = {"topic": "log-0", "partition": 0}
    wiped = {"replicas": [{**place, "log_start": 2, "log_end": 9}]}
    flips = [{**place, "base_offset": 4, "end_offset": 5, "log_end": 9}]
    flipped = {"flips": flips, "ran_s": 0.5}
    assert told(fault(kind="wipe", effect=json.dumps(wiped))) == (
        replace(cut("n1", "n2", after=2, before=9, excuse="wipe", began=S), replicas=1),
    )
    assert told(fault(kind="bit-flip", effect=json.dumps(flipped))) == (
        replace(
            cut("n1", "n2", after=4, before=9, excuse="bit-flip", until=S * 3 // 2, began=S),
            replicas=1,
        ),
    )
    # Of each node one partition was hit, and not always the same.
    apart = [
        {**flips[0], "node": node, "partition": partition}
        for node, partition in (("n1", 0), ("n2", 1), ("n3", 1))
    ]
    several = told(fault(kind="bit-flip", effect=json.dumps({**flipped, "flips": apart})))
    hit = [(loss.partition, sorted(loss.nodes)) for loss in several]
    assert hit == [(0, ["n1"]), (1, ["n2", "n3"])]
    # Its broker runs again before the heal, and nobody knows when it began without being told.
    healed = {"healed_ns": 9 * S, "heal_effect": json.dumps({"took_s": 1})}
    (known,) = told(fault(kind="bit-flip", effect=json.dumps(flipped), **healed))
    assert known.until_ns == S * 3 // 2
    (unknown,) = told(fault(kind="bit-flip", effect=json.dumps({"flips": flips}), **healed))
    assert unknown.until_ns == -1


def test_until_the_heal_began_no_broker_ran_that_could_have_acknowledged_anything() -> None:
    healed = {"healed_ns": 9 * S, "heal_effect": json.dumps({"took_s": 2.5})}
    assert told(fault(**healed))[0].until_ns == 6.5 * S
    assert told(fault(**{**healed, "heal_effect": "{}"}))[0].until_ns == 2 * S
    assert told(fault(**{**healed, "heal_effect": json.dumps({"took_s": 8.5})}))[0].until_ns == (
        2 * S
    )


def test_a_runs_folder_tells_of_its_losses(tmp_path: Path) -> None:
    run = FaithfulRun(1)
    run.rows["faults"] = [fault(healed_ns=3 * S)]
    root = run.write(tmp_path / "t" / "dark")
    judge_runs([root], engine="local")
    assert load_facts(root).disk_losses == (
        replace(
            cut("n1", "n2", after=5, before=9, began=S, healed=3 * S), least_after=3, replicas=2
        ),
    )


def begun(**changes: object) -> Row:
    """Return a fault that was begun, and failed before anything of it was confirmed."""
    late = {"without_effect": "n1 did not end within 10 s of SIGKILL"}
    return fault(**{"confirmed_ns": None, "spec": json.dumps({"begun": True}),
                    "effect": json.dumps(late), **changes})  # fmt: skip


UNKNOWN_END = 2**63 - 1


def test_a_fault_that_was_begun_and_never_confirmed_may_have_taken_anything() -> None:
    anything = DiskLoss(
        nodes=frozenset({"n1", "n2"}), topic="", partition=-1, end_after=0,
        end_before=UNKNOWN_END, until_ns=UNKNOWN_END, began_ns=S, excuse="unconfirmed-fault",
    )  # fmt: skip
    for kind in ("power-loss", "wipe", "bit-flip"):
        assert told(begun(kind=kind)) == (anything,)
        # The harness died over it.
        assert told(begun(kind=kind, effect=None)) == (anything,)
        assert told(begun(kind=kind, effect=None, spec="{}")) == (anything,)
    (healed,) = told(begun(healed_ns=9 * S))
    assert (healed.until_ns, healed.healed_ns) == (9 * S, 9 * S)
    assert told(begun(kind="kill")) == ()


def test_a_disk_that_was_seen_to_have_lost_no_flush_took_nothing() -> None:
    old = json.dumps({"family": "lost-flushes", "begun": True})
    family = json.dumps({"family": "lost-flushes", "begun": True, "incarnations": {}})
    none = json.dumps({"without_effect": UNMEASURED})
    assert len(told(begun(kind="any", spec=family))) == 1, "it failed half-way"
    assert told(begun(kind="any", spec=family, effect=none)) == ()
    assert len(told(begun(kind="any", spec=old, effect=none))) == 1, "another log may have been cut"
    assert len(told(begun(kind="power-loss", effect=none))) == 1, "its logs may have been cut"


def test_a_fault_that_was_refused_before_it_began_took_nothing() -> None:
    assert told(begun(spec=json.dumps({"begun": False}))) == ()
    # Of before `begun` was written: what says no more than why it was refused was never in force.
    assert told(begun(spec="{}")) == ()
    assert told(begun(spec="{}", targets=[])) == ()
    assert len(told(begun(spec="{}", healed_ns=9 * S))) == 1
    assert len(told(begun(spec=json.dumps({"not_healed": "n1 is gone"})))) == 1
    for damaged in ("[]", "{", '{"begun": 1}'):
        assert told(begun(spec=damaged)) == ()


def unsure(*nodes: str, until: int = UNKNOWN_END, began: int = 0, healed: int = -1) -> DiskLoss:
    return DiskLoss(
        nodes=frozenset(nodes), topic="", partition=-1, end_after=0, end_before=UNKNOWN_END,
        until_ns=until, began_ns=began, healed_ns=healed, excuse="unconfirmed-fault",
    )  # fmt: skip


def test_what_an_unconfirmed_fault_may_have_taken_is_neither_excused_nor_proof() -> None:
    doubt = ("unconfirmed-fault",)
    assert lost(unsure("n1", "n2")) == doubt
    assert lost(unsure("n1"), cut("n2")) == doubt
    assert lost(unsure("n1")) == ()  # n2 was spared.
    assert lost(unsure("n1"), cut("n2", after=1, before=2)) == ()  # It was flushed on n2.
    assert lost(unsure("n1", "n2", until=S // 2)) == ()  # Acknowledged after its heal.
    # What confirmed faults explain needs no other.
    assert lost(unsure("n1"), cut("n1", "n2")) == ("power-loss",)
    for name in ("lost-write", "committed-truncation", "poll-skip", "duplicate"):
        assert allowed(name, doubt, Judge.CONTRACT) is None
        assert doubts(name, doubt, Judge.CONTRACT) == ("known-losses",)
        assert doubts(name, doubt, Judge.STRICT) == ()
    for name in ("phantom", "two-leaders-in-epoch"):
        assert doubts(name, doubt, Judge.CONTRACT) == ()


def test_several_losses_are_as_sure_as_the_least_sure_of_them() -> None:
    power, doubt = ("power-loss",), ("unconfirmed-fault",)
    assert all_lost([power, ("wipe",)]) == ("power-loss", "wipe")
    assert all_lost([power, doubt]) == doubt
    assert all_lost([power, ()]) == ()
    assert all_lost([]) == ()


def of_last_copies(*told_before: Row, excuse: str = "wipe") -> tuple[str, ...]:
    """Return what a loss is labelled with if n1 alone was hit, at 10 s."""
    hit = cut("n1", until=12 * S, began=10 * S, healed=15 * S, excuse=excuse)
    on = group(
        about(hit),
        sends=[ack(A, 0)],
        leadership=[leads(1, 0), *told_before],
        replica_states=[state("n1", 0), state("n2", 0)],
    )
    (anomaly,) = found(lost_write.CHECKER, on).anomalies
    return anomaly.excuses


def test_the_last_member_of_an_isr_may_have_had_the_only_copy() -> None:
    """Kafka promises nothing of a record whose last in-sync copy is gone; nor is it known gone."""
    alone = tells(1, at=9 * S)
    assert of_last_copies(alone) == ("last-copies",)
    assert of_last_copies(tells(1, 2, at=9 * S)) == ()
    assert of_last_copies() == ()
    assert of_last_copies(alone, tells(1, 2, at=9 * S + 1)) == ()  # n2 had come back.
    # One that still believes it was told by another one than the one that knows better.
    assert of_last_copies(alone, tells(1, 2, at=9 * S, observer="n3")) == ("last-copies",)
    assert of_last_copies(tells(1, at=11 * S)) == ()  # Later than the fault: by its doing.
    assert of_last_copies(tells(2, at=9 * S)) == ()
    assert doubts("lost-write", ("last-copies",), Judge.CONTRACT) == ("kept-copies",)
    assert allowed("lost-write", ("last-copies",), Judge.CONTRACT) is None


def test_what_a_spared_member_of_the_isr_had_is_not_gone_with_the_last_one() -> None:
    """A clean election of the emptied broker loses it all the same: KIP-966."""
    full, alone = tells(1, 2, at=5 * S), tells(1, at=9 * S)
    assert of_last_copies(full, alone) == ()
    # n2 may have left just before it was acknowledged, and n2 was told late.
    assert of_last_copies(tells(1, 2, at=2 * S), alone) == ("last-copies",)
    # Who never knew better tells nothing of when.
    late = tells(1, 2, at=8 * S, observer="n3")
    assert of_last_copies(late, alone) == ("last-copies",)
    # Of two that know, the one that knew first.
    again = [tells(1, 2, at=2 * S, observer="n3"), tells(1, at=9 * S, observer="n3")]
    assert of_last_copies(full, alone, *again) == ("last-copies",)


def lose_the_last(run: FaithfulRun) -> None:
    """Take the last acknowledged record of a partition from every replica and every reader."""
    each, rows = run.partitions[0], run.rows
    ops = {(row["op_id"], row["mop"]) for row in rows["send_completions"] if row.get("acked")}
    acked = {row["value"] for row in rows["send_invocations"] if (row["op_id"], row["mop"]) in ops}
    values = [value for _, value in each.logs[1]]
    end = max(at for at, value in enumerate(values) if value in acked)
    for name in ("replica_records", "polled"):
        rows[name] = [row for row in rows[name] if row.get("value") not in values[end:]]
    for row in (*rows["replica_states"], *rows["final_reads"]):
        if row["partition"] == each.place["partition"]:
            ends = ("log_end_offset", "high_watermark", "target_end", "reached")
            row.update({name: end for name in ends if row.get(name) == len(values)})


def test_a_run_that_an_unconfirmed_fault_may_have_robbed_is_unknown(tmp_path: Path) -> None:
    """The last record is gone from all replicas; a fault on all of them was begun, or on two."""
    for name, nodes, validity in (
        ("all", ["n1", "n2", "n3"], Validity.UNKNOWN),
        ("spared", ["n1", "n2"], Validity.INVALID),
    ):
        run = FaithfulRun(2, steps=80)
        run.rows["faults"] = [begun(targets=nodes, healed_ns=3600 * S)]
        lose_the_last(run)
        (verdict,) = judge_runs([run.write(tmp_path / "t" / name)], engine="local")
        assert verdict.anomalies["lost-write"].count == 1
        assert verdict.valid is validity
        told_why = "so the removed records are unknown" in " ".join(verdict.unknown_because)
        assert told_why is (validity is Validity.UNKNOWN)
