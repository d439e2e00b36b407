"""Frames, settings and failures of Kafka's own clients, without a JVM."""

import re
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from results.record.contents import HEADERS, key_of, messages
from results.record.headers import HEADER, Header, coded_headers, mark
from results.record.keys import MARK_BYTES, is_tombstone
from results.record.plan import Plan, PlanError, plan_from
from results.record.shapes import Shape
from results.record.terms import Outcome
from workloads.clients import java
from workloads.clients.java.bridge import Bridge, BridgeError
from workloads.clients.java.consumer import batch_of
from workloads.clients.java.failures import send_outcome
from workloads.clients.java.frames import (
    LOCAL,
    REPORTED,
    THROWN,
    Ask,
    Fault,
    Report,
    Role,
    Tell,
    frame,
    sending,
    text,
    told_batch,
    told_counts,
    told_report,
    unframed,
)
from workloads.clients.java.producer import result_of
from workloads.clients.java.settings import (
    member_settings,
    producer_settings,
    refuse_java_settings,
    transactional_settings,
)
from workloads.protocol import Send

AT_MS = 1_700_000_000_000
KEY = ("log-0", 3)


def pieces(values: Sequence[bytes | None]) -> bytes:
    sizes = [-1 if value is None else len(value) for value in values]
    return struct.pack(f">{len(sizes)}i", *sizes) + b"".join(value or b"" for value in values)


def batch_body(
    values: Sequence[int],
    *,
    epochs: Sequence[int],
    payloads: Sequence[bytes | None] | None = None,
    strange: int | None = None,
    keys: int = 0,
) -> bytes:
    """What `Consuming.java` writes of records of one partition, offsets from 7 on."""
    count = len(values)
    sent = list(messages(np.array(values, np.int64), Shape(size_bytes=40, keys=keys), AT_MS))
    marks = [mark(headers) for _, _, headers in sent]
    if strange is not None:
        marks[strange] = coded_headers([("other", None)])
    return b"".join([
        struct.pack(">ii", count, 1), text(KEY[0]), struct.pack(">ii", KEY[1], count),
        struct.pack(f">{count}q", *range(7, 7 + count)), struct.pack(f">{count}i", *epochs),
        struct.pack(f">{count}q", *[AT_MS] * count),
        pieces([each[0] for each in sent] if payloads is None else payloads),
        pieces([each[1] for each in sent]), pieces(marks),
    ])  # fmt: skip


def test_frames_are_found_in_whatever_pieces_they_come() -> None:
    # What is asked for and what is told have numbers of their own: 1 and 7 are both.
    whole = frame(5, Ask.OPEN) + frame(6, Ask.POLL, b"body")
    told = [(5, Tell.DONE, b""), (6, Tell.TAKEN, b"body")]
    for cut in range(len(whole)):
        first, used = unframed(whole[:cut])
        rest, all_of_it = unframed(whole[used:])
        assert [(seat, each.kind, each.body) for seat, each in first + rest] == told
        assert used + all_of_it == len(whole)


def test_a_batch_is_columns_and_what_was_sent_is_intact() -> None:
    values = [16, 17, 18]
    batch = batch_of(told_batch(batch_body(values, epochs=[4, 4, 5])))
    assert batch.spans == [(KEY, 3)]
    assert batch.offsets.tolist() == [7, 8, 9]
    assert list(batch.values) == values
    assert list(batch.leader_epochs) == [4, 4, 5]
    assert batch.positions == {KEY: 10}
    assert batch.damage is not None
    assert list(batch.damage) == [0, 0, 0]


def test_what_a_broker_did_not_say_is_none_and_strange_records_are_damaged() -> None:
    body = batch_body([16, 17], epochs=[4, -1], payloads=[b"short", None], strange=1)
    batch = batch_of(told_batch(body))
    assert list(batch.values) == [None, None]
    assert list(batch.leader_epochs) == [4, None]
    assert batch.damage is not None
    assert all(batch.damage)
    other = batch_of(told_batch(batch_body([16, 17], epochs=[4, 4], strange=0)))
    assert other.damage is not None
    assert list(other.damage) == [HEADERS, 0]


def test_a_record_by_itself_has_the_number_of_keys_that_the_plan_has() -> None:
    read = told_batch(batch_body([16], epochs=[4], keys=5))
    for keys, damage in ((0, [0]), (5, [0]), (4, [HEADERS])):
        found = batch_of(read, keys=keys).damage
        assert found is not None
        assert list(found) == damage


def test_the_records_of_an_op_are_one_frame() -> None:
    values = np.arange(32, 52, dtype=np.int64)
    shape = Shape(size_bytes=100, others=[(300, 4)])
    sent = list(messages(values, shape, AT_MS))
    body = sending(9, Send(key=KEY, values=values), sent, AT_MS)
    sizes = [len(payload or b"") for payload, _, _ in sent]
    assert set(sizes) == {100, 300}
    head = struct.pack(">q", 9) + text(KEY[0]) + struct.pack(">iq", KEY[1], AT_MS)
    assert body.startswith(head + struct.pack(">21i", 20, *sizes))
    marks = body[len(head) + 84 : -sum(sizes) - 20 * 8 - 4]
    of_one = b"\1" + text(HEADER) + struct.pack(">i", 8)
    assert marks == of_one + sent[0][1] + bytes(15) + of_one + sent[16][1] + bytes(3)
    assert body.endswith(b"".join(payload or b"" for payload, _, _ in sent))


def test_a_frame_of_few_keys_has_tombstones_without_a_payload() -> None:
    values = np.arange(32, 132, dtype=np.int64)
    sent = list(messages(values, Shape(size_bytes=100, keys=5), AT_MS))
    body = sending(9, Send(key=KEY, values=values), sent, AT_MS)
    dead = [at for at, (payload, _, _) in enumerate(sent) if payload is None]
    assert dead == [at for at, value in enumerate(values.tolist()) if is_tombstone(value)]
    assert dead
    head = struct.pack(">q", 9) + text(KEY[0]) + struct.pack(">iqi", KEY[1], AT_MS, 100)
    sizes = struct.unpack_from(">100i", body, len(head))
    assert sizes == tuple(-1 if payload is None else len(payload) for payload, _, _ in sent)
    keys = struct.pack(">i", 4) + b"".join(key for _, key, _ in sent)
    assert body.endswith(keys + b"".join(payload for payload, _, _ in sent if payload is not None))


def test_readers_in_java_mark_headers_as_long_as_ours() -> None:
    source = (Path(java.__file__).parent / "Consuming.java").read_text(encoding="utf-8")
    found = dict(re.findall(r"int (KEY_BYTES|MARK_BYTES) = (\d+);", source))
    assert found == {"KEY_BYTES": f"{len(key_of(1))}", "MARK_BYTES": f"{MARK_BYTES}"}


def test_a_frame_has_names_that_are_empty_and_contents_that_are_null() -> None:
    headers: Header = [("", b"x"), ("é", None), ("a", b"")]
    body = sending(9, Send(key=KEY, values=np.array([5])), [(b"p", b"k", headers)], AT_MS)
    coded = text("") + struct.pack(">i", 1) + b"x" + text("é") + struct.pack(">i", -1)
    assert body.endswith(b"\3" + coded + text("a") + struct.pack(">ii", 0, 1) + b"kp")


def test_a_report_has_the_outcome_of_each_record() -> None:
    body = struct.pack(">qi2q", 4, 2, 11, -1) + struct.pack(">iib", 1, 1, REPORTED)
    body += text("TimeoutException: Expiring 1 record(s)")
    report = told_report(body)
    assert (report.op, report.offsets.tolist()) == (4, [11, -1])
    result = result_of(report, retries=None)
    assert result.outcomes == [Outcome.OK, Outcome.INFO]
    assert result.error == "TimeoutException: Expiring 1 record(s)"
    fine = Report(op=4, offsets=report.offsets, faults=[])
    assert result_of(fine, retries=None).outcomes is None


@pytest.mark.parametrize(
    ("name", "how", "retries", "outcome"),
    [
        ("TimeoutException", REPORTED, None, Outcome.INFO),
        ("TimeoutException", LOCAL, None, Outcome.FAIL),  # `send` never took it.
        ("TimeoutException", THROWN, None, Outcome.INFO),
        ("BufferExhaustedException", LOCAL, None, Outcome.FAIL),
        ("KafkaException", THROWN, 0, Outcome.INFO),
        ("KafkaException", LOCAL, 0, Outcome.INFO),
        ("NotLeaderOrFollowerException", REPORTED, 0, Outcome.INFO),
        ("NotEnoughReplicasException", REPORTED, 0, Outcome.FAIL),
        ("NotEnoughReplicasException", REPORTED, None, Outcome.INFO),
        ("NotEnoughReplicasAfterAppendException", REPORTED, 0, Outcome.INFO),
        ("RecordTooLargeException", LOCAL, None, Outcome.FAIL),
        ("RecordTooLargeException", REPORTED, None, Outcome.INFO),
        ("InvalidRecordException", REPORTED, 3, Outcome.FAIL),
        ("DisconnectException", REPORTED, 0, Outcome.INFO),
    ],
)
def test_only_what_is_certainly_not_written_has_failed(
    name: str, how: int, retries: int | None, outcome: Outcome
) -> None:
    fault = Fault(index=0, how=how, error=f"{name}: words: and more")
    assert send_outcome(fault, retries=retries) is outcome


def test_timeouts_fit_into_one_another() -> None:
    plan = Plan(delivery_timeout_s=4, linger_ms=50)
    settings = producer_settings(plan, bootstrap="b", worker=1).plans
    delivery, request = settings["delivery.timeout.ms"], settings["request.timeout.ms"]
    assert (delivery, request) == ("4000", "3950")
    txn = plan_from({"workload": "txn", "transaction_timeout_s": 6})
    of_txn = transactional_settings(txn, bootstrap="b", thread=2).plans
    assert of_txn["delivery.timeout.ms"] == of_txn["transaction.timeout.ms"] == "6000"
    assert of_txn["request.timeout.ms"] == "2000"


def test_a_client_that_goes_on_gives_up_before_a_paused_broker_is_back() -> None:
    plan = plan_from({"workload": "txn", "after_timeout": "go-on", "linger_ms": 5})
    settings = transactional_settings(plan, bootstrap="b", thread=2).plans
    assert settings["delivery.timeout.ms"] == "2000"
    assert settings["request.timeout.ms"] == "1000"


def test_the_plan_decides_how_producers_batch() -> None:
    plan = plan_from({"contents": {"batch_bytes": 5000, "max_in_flight": 2}})
    settings = producer_settings(plan, bootstrap="b", worker=1).plans
    assert settings["batch.size"] == "5000"
    assert settings["max.in.flight.requests.per.connection"] == "2"


def test_brokers_decide_the_session_of_groups_that_they_assign() -> None:
    classic = plan_from({"workload": "groups"})
    settings = member_settings(classic, bootstrap="b", client_id="c", group="g").plans
    assert settings["session.timeout.ms"] == "6000"
    new = plan_from({"workload": "groups", "client": {"group.protocol": "consumer"}})
    settings = member_settings(new, bootstrap="b", client_id="c", group="g").plans
    assert not {"session.timeout.ms", "heartbeat.interval.ms"} & settings.keys()


@pytest.mark.parametrize("key", ["acks", "max.poll.records", "key.serializer"])
def test_what_the_plan_decides_cannot_be_set(key: str) -> None:
    with pytest.raises(PlanError, match=f"client.{key} cannot be set, because the "):
        refuse_java_settings(Plan(client={key: "1"}, client_kind="java"))


def test_your_own_clients_are_librdkafkas() -> None:
    with pytest.raises(PlanError, match="your clients mine have settings of librdkafka"):
        refuse_java_settings(Plan(clients="mine", client_kind="java"))


def test_a_jvm_that_ends_is_told_to_whoever_asks() -> None:
    bridge = Bridge([sys.executable, "-c", "import sys; sys.stdin.read(1)"])
    with pytest.raises(BridgeError, match="exited by itself"):
        bridge.check(Role.PRODUCER, {}, {})
    with pytest.raises(BridgeError, match="exited by itself"):
        bridge.check(Role.PRODUCER, {}, {})
    bridge.close()


def test_what_a_share_group_delivered_tells_how_often_behind_its_records() -> None:
    body = batch_body([16, 17], epochs=[4, 4], strange=0)
    counts = struct.pack(">ii", 1, 25)
    assert told_counts(body + counts, 2).tolist() == [1, 25]
    assert told_batch(body + counts).offsets.tolist() == told_batch(body).offsets.tolist()
    assert told_counts(body, 0).tolist() == []
