"""Lines of real brokers' logs (Kafka 4.3.1; the older wordings from the sources)."""

from pathlib import Path

import pytest

from cluster.files.logs import LoggedLeadership, LoggedTruncation, log_events

LOGS = Path(__file__).parent / "data" / "n2" / "logs"


def events(name: str) -> list[LoggedTruncation | LoggedLeadership]:
    return list(log_events((LOGS / name).read_text(encoding="utf-8").splitlines()))


def only(*lines: str) -> LoggedTruncation | LoggedLeadership:
    (event,) = log_events(lines)
    return event


def test_a_truncation_and_its_reason() -> None:
    assert events("server.log") == [
        LoggedTruncation(
            wall_clock="2026-11-21 11:59:53,908",
            topic="log-1",
            partition=0,
            from_offset=20,
            reason="follower of broker 1: epoch 0 ends at offset 20 there",
        )
    ]


def test_a_truncation_without_effect_is_none() -> None:
    lines = (LOGS / "server.log").read_text(encoding="utf-8")
    assert "Truncating to 0 has no effect" in lines
    assert all(
        event.from_offset > 0
        for event in events("server.log")
        if isinstance(event, LoggedTruncation)
    )


def test_leaders_and_followers() -> None:
    found = events("state-change.log")
    lines = (LOGS / "state-change.log").read_text(encoding="utf-8").splitlines()
    assert len(found) == sum("starts at leader epoch" in line for line in lines)
    assert found[0] == LoggedLeadership(
        wall_clock="2026-11-21 11:59:35,603",
        topic="log-0",
        topic_id="4db41ca5-da2c-4ae8-990e-d263adc4f26c",
        partition=1,
        leader=2,
        leader_epoch=0,
        isr=(2, 3, 1),
    )
    assert found[1] == LoggedLeadership(
        wall_clock="2026-11-21 11:59:35,636",
        topic="txn",
        topic_id=None,
        partition=0,
        leader=1,
        leader_epoch=0,
        isr=None,
    )


def test_a_partition_without_a_leader() -> None:
    event = only(
        "[2026-11-21 12:12:40,1] INFO [Broker id=1] Follower log-0-0 starts at leader epoch 5 from"
        " offset 70 with partition epoch 12 and high watermark 70. Current leader is -1. Previous"
        " leader Some(3) and previous leader epoch was 4. (state.change.logger)"
    )
    assert isinstance(event, LoggedLeadership)
    assert (event.leader, event.leader_epoch) == (-1, 5)


def test_corruption_found_while_the_log_was_loaded() -> None:
    event = only(
        "[2026-11-21 12:13:59,792] WARN [LogLoader partition=log-0-0, dir=/var/lib/kafka/data]"
        " Corruption found in segment 0, truncating to offset 60"
        " (org.apache.kafka.storage.internals.log.LogLoader)"
    )
    assert event == LoggedTruncation(
        wall_clock="2026-11-21 12:13:59,792",
        topic="log-0",
        partition=0,
        from_offset=60,
        reason="Corruption found in segment 0",
    )


FETCHER = "[2026-01-01 00:00:00,001] INFO [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0]"
SAID_BY_HIGH_WATERMARK = (
    f"{FETCHER} Truncating partition t-x-3 with TruncationState(offset=9, completed=true)"
    " due to local high watermark 9 (kafka.server.ReplicaFetcherThread)"
)
SAID_BELOW = f"{FETCHER} Truncating t-3 to offset 4 below high watermark 6 (kafka.server.X)"
LOG = "[2026-01-01 00:00:00,002] INFO [Log partition=t-x-3, dir=/d] Truncating to offset 9 (k.Log)"
UNIFIED_LOG = "[2026-01-01 00:00:00,002] INFO [UnifiedLog partition=t-3, dir=/d]"
OLDEST_LOG = "[2026-01-01 00:00:00,001] INFO Truncating log t-0 to offset 12. (kafka.log.Log)"


@pytest.mark.parametrize(
    ("lines", "place", "reason"),
    [
        (
            [SAID_BY_HIGH_WATERMARK, LOG],
            ("t-x", 3, 9),
            "follower of broker 2: local high watermark 9",
        ),
        (
            [SAID_BELOW, f"{UNIFIED_LOG} Truncating to offset 4 (kafka.log.UnifiedLog)"],
            ("t", 3, 4),
            "below its high watermark 6",
        ),
        ([OLDEST_LOG], ("t", 0, 12), ""),
        (
            [f"{UNIFIED_LOG} Truncate and start at offset 31, logStartOffset: 31 (kafka.log.X)"],
            ("t", 3, 31),
            "Truncate and start at offset",
        ),
    ],
)
def test_other_wordings(lines: list[str], place: tuple[str, int, int], reason: str) -> None:
    event = only(*lines)
    assert isinstance(event, LoggedTruncation)
    assert (event.topic, event.partition, event.from_offset) == place
    assert event.reason == reason


def test_a_reason_belongs_to_its_own_partition_and_offset() -> None:
    event = only(SAID_BY_HIGH_WATERMARK, f"{UNIFIED_LOG} Truncating to offset 9 (kafka.log.X)")
    assert isinstance(event, LoggedTruncation)
    assert event.reason == ""


def test_lines_that_are_cut_or_foreign_are_passed_over() -> None:
    whole = (LOGS / "server.log").read_text(encoding="utf-8")
    line = next(line for line in whole.splitlines() if "Truncating to offset 20" in line)
    full = list(log_events([line]))
    assert len(full) == 1
    for cut in range(line.index("offset 20") + len("offset ")):
        assert list(log_events([line[:cut], "java.lang.Truncated: at x"])) == []
