"""Lines of the brokers' logs around a witness, placed on the run's axis."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from results.page.broker_logs import MAX_LINES, BrokerLogs, Wanted, broker_logs, cuts_logged
from results.record.paths import RunPaths

CUT = (
    "[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Truncating partition {} with"
    " TruncationState(offset={}, completed=true) due to leader epoch and offset"
)
MakeRun = Callable[..., RunPaths]
STARTED = datetime(2026, 11, 22, 1, 0, tzinfo=UTC)


def write_log(
    paths: RunPaths, *lines: tuple[float, str], zone_h: float = 0, name: str = "server.log"
) -> None:
    """Write the log of n1: lines of (second of the run, text), in the broker's time zone."""
    file = paths.node("n1") / "logs" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as log:
        for at_s, text in lines:
            at = STARTED + timedelta(seconds=at_s, hours=zone_h)
            stamp = f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d}"
            log.write(f"[{stamp}] INFO {text}\n")


def started(paths: RunPaths, **told: object) -> RunPaths:
    values = told or {"started_unix_s": STARTED.timestamp()}
    paths.environment.write_text(json.dumps(values), encoding="utf-8")
    return paths


def found(paths: RunPaths, low: float = 20.0, high: float = 30.0) -> BrokerLogs:
    logs = broker_logs(paths, Wanted(place="log-0-1", offset=95, window=(low, high)))
    assert logs is not None
    return logs


@pytest.mark.parametrize("zone_h", [0, 5.75, -8])
def test_lines_are_placed_whatever_the_brokers_time_zone(make_run: MakeRun, zone_h: float) -> None:
    paths = started(make_run())
    write_log(
        paths, (1.5, "starting"), (19.9, "Truncating log-0-1 too early"),
        (22.25, "Truncating log-0-1 to offset 120"), (30.1, "Truncating log-0-1 too late"),
        zone_h=zone_h,
    )  # fmt: skip
    (line,) = found(paths).lines
    assert (line.node, line.file, line.at_s, line.times) == ("n1", "server.log", 22.25, 1)
    assert "to offset 120" in line.text


@pytest.mark.parametrize("first_s", [-0.4, 700.0])
def test_a_broker_that_came_late_has_no_other_time_zone_for_that(
    make_run: MakeRun, first_s: float
) -> None:
    paths = started(make_run())
    write_log(paths, (first_s, "starting"), (22.25, "Truncating log-0-1"), zone_h=5.75)
    assert [each.at_s for each in found(paths).lines] == [22.25]


def test_a_start_that_is_known_to_the_second_is_said_to_be(make_run: MakeRun) -> None:
    paths = started(make_run(), started_utc="20261122T010000Z")
    write_log(paths, (1.5, "starting"), (22.0, "Truncating log-0-1"))
    logs = found(paths)
    assert logs.about_s == 0.5
    assert logs.lines[0].at_s == pytest.approx(21.5)


def test_lines_of_other_partitions_stay_away_and_of_the_partition_come_first(
    make_run: MakeRun,
) -> None:
    paths = started(make_run())
    noise = [(21 + number / 100, f"WARN {'x' * number} of another kind") for number in range(60)]
    write_log(
        paths, (1.5, "starting"), (22.0, "nothing to tell"), (23.0, "reading log-0-1 quietly"),
        (24.0, "reading log-0-12 quietly"), (25.0, "reading blog-0-1 quietly"), *noise,
    )  # fmt: skip
    logs = found(paths)
    texts = [each.text for each in logs.lines]
    assert len(texts) == MAX_LINES
    assert any(text.endswith("reading log-0-1 quietly") for text in texts)
    assert not [text for text in texts if "log-0-12" in text or "blog" in text]
    assert logs.left_out == 61 - MAX_LINES


def test_lines_that_differ_in_numbers_only_are_one(make_run: MakeRun) -> None:
    paths = started(make_run())
    lines = [(21 + number / 1000, f"WARN node {number} is away") for number in range(500)]
    write_log(paths, (1.5, "starting"), *lines)
    (line,) = found(paths).lines
    assert line.times == 500
    assert line.text.endswith("node 0 is away")


def test_what_proves_the_story_comes_first_each_with_its_own_numbers(make_run: MakeRun) -> None:
    paths = started(make_run())
    loud = [(20.5 + at / 100, f"ERROR {'x' * at} of log-0-1") for at in range(MAX_LINES)]
    write_log(
        paths, (1.5, "starting"), *loud, (21.0, CUT.format("log-0-1", 120)),
        (22.0, "[UnifiedLog partition=log-0-1, dir=/d] Truncating to offset 90"),
        (22.5, CUT.format("log-0-2", 7)),
        (22.7, "[UnifiedLog partition=log-0-1] Truncating to 95 has no effect as it ends there"),
        (23.0, "Leader log-0-1 starts at leader epoch 4 from offset 90"),
    )  # fmt: skip
    first = [(each.at_s, each.proves, each.times) for each in found(paths).lines[:5]]
    assert first[:4] == [(at_s, True, 1) for at_s in (21.0, 22.0, 22.7, 23.0)]
    assert first[4][1] is False
    assert cuts_logged(paths, ["log-0-1"]) == {"log-0-1": {"n1": [(22.0, 90)]}}


def test_a_proof_is_shown_wherever_a_clock_that_is_not_ours_put_it(make_run: MakeRun) -> None:
    paths = started(make_run())
    deed = "[UnifiedLog partition=log-0-1, dir=/d] Truncating to offset {}"
    write_log(
        paths, (1.5, "starting"), (22.0, "reading log-0-1"), (44.0, deed.format(90)),
        (45.0, deed.format(96)), (46.0, deed.replace("0-1", "0-2").format(90)),
        (47.0, CUT.format("log-0-1", 91)),
    )  # fmt: skip
    wanted = Wanted(place="log-0-1", offset=95, window=(20.0, 30.0))
    ours = broker_logs(paths, wanted)
    other = broker_logs(paths, wanted, astray=lambda node: node == "n1")
    assert ours is not None
    assert other is not None
    assert [each.at_s for each in ours.lines] == [22.0]
    assert [each.at_s for each in other.lines] == [44.0, 22.0]


def test_what_cannot_be_placed_is_none(make_run: MakeRun) -> None:
    paths = make_run()
    write_log(paths, (1.5, "starting"))
    for values in ("{}", "no json", '{"started_utc": "yesterday"}', '{"started_unix_s": 1e300}'):
        paths.environment.write_text(values, encoding="utf-8")
        assert broker_logs(paths, Wanted(place="log-0-1", offset=95, window=(0.0, 9.0))) is None
        assert cuts_logged(paths, ["log-0-1"]) == {}


def test_logs_of_hostile_bytes_are_read_to_their_end(make_run: MakeRun) -> None:
    paths = started(make_run())
    write_log(paths, (1.5, "starting"))
    log = paths.node("n1") / "logs" / "server.log"
    with log.open("ab") as file:
        file.write(b"\x00" * 100_000 + b"\n[9999-99-99 99:99:99,999] ERROR\n" + b"[\xff\xff]\n")
    write_log(paths, (22.0, "ERROR log-0-1 at the end"))
    assert [each.text[-17:] for each in found(paths).lines] == ["log-0-1 at the end"[-17:]]


def test_a_log_behind_a_link_is_not_read(make_run: MakeRun) -> None:
    paths = started(make_run())
    write_log(paths, (1.5, "starting"), (22.0, "ERROR log-0-1"), name="elsewhere.log")
    logs = paths.node("n1") / "logs"
    (logs / "server.log").symlink_to(logs / "elsewhere.log")
    assert found(paths).lines == ()
