"""The index is a cache: it says what the folders say, whatever happened to it or to them."""

import contextlib
import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from results.index import Index, RunQuery, RunState, database, open_index
from results.index.catalogue import FILE_NAME
from results.record.night import Why
from results.record.terms import AnomalyClass
from results.store import Store, lock_run
from results.verdict_json import write_verdict
from tests.results.planted import anomaly, judgement, night_of, plant, planted_sample

AS_ROOT = pytest.mark.needs("root")
NIGHTS = ("20261120T010000Z", "20261121T010000Z", "20261122T010000Z")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


def opened(store: Store) -> Index:
    index = open_index(store)
    index.refresh()
    return index


def ids(index: Index, **fields: object) -> list[str]:
    return [each.run_id for each in index.runs(RunQuery(**fields))]  # type: ignore[arg-type]  # by name


def test_an_empty_store_has_an_empty_index(store: Store) -> None:
    with opened(store) as index:
        assert index.runs() == ()
        assert index.nights() == ()
        assert index.signatures() == ()
        assert index.seen("0" * 12) is None


def test_a_row_tells_what_the_folder_tells(store: Store) -> None:
    paths = plant(
        store.root, "20261122T011500Z",
        plan={"system": "kafka:3.9.1:zookeeper", "hosts": "ssh:/etc/hosts.toml", "seed": 2**70},
        anomalies={"lost-write": anomaly(3), "isr-not-restored":
                   anomaly(1, of=AnomalyClass.LIVENESS, sentence="late")},
        night=night_of(NIGHTS[2], "log/3.9.1", why=Why.FRESH_SEED, repeats="log/x-1"),
    )  # fmt: skip
    with opened(store) as index:
        (row,) = index.runs()
    assert (row.run_id, row.name, row.seed) == (paths.run_id, "log", 2**70)
    assert (row.system, row.version, row.hosts) == ("kafka:3.9.1:zookeeper", "3.9.1", "ssh")
    assert (row.verdict, row.verdict_class, row.state) == ("invalid", "safety", RunState.JUDGED)
    assert row.sentence == "Invalid: 3 acknowledged writes were lost."
    assert row.anomalies == (("lost-write", 3), ("isr-not-restored", 1))
    assert row.faults == (("isolate", 1), ("kill", 3))
    assert (row.nemesis, row.workload, row.judge) == ("kill+partition", "log", "contract")
    assert (row.started, row.duration_s, row.recover_s) == ("20261122T011500Z", 50.0, 10.0)
    assert (row.operations, row.throughput) == (9040, 150.0)
    assert (row.suite, row.night, row.why) == ("nightly", NIGHTS[2], "fresh-seed")
    assert row.size_bytes == sum(each.stat().st_size for each in paths.root.rglob("*"))
    assert row.signature_sentence.startswith("Acknowledged writes were lost, under")


def test_only_what_changed_is_read_again(store: Store) -> None:
    paths = plant(store.root, "20261122T010000Z", judged=False)
    plant(store.root, "20261122T020000Z")
    index = open_index(store)
    assert index.refresh() == 2
    assert index.refresh() == 0
    write_verdict(paths, judgement(paths, {"duplicate": anomaly()}))
    assert index.refresh() == 1
    assert ids(index, verdict="invalid") == [paths.run_id]
    shutil.rmtree(paths.root)
    assert index.refresh() == 0
    assert index.count() == 1
    assert ids(index, anomaly="duplicate") == []


def test_a_run_is_running_while_it_lives_and_died_if_it_did_not_end(store: Store) -> None:
    paths = plant(store.root, "20261122T010000Z", judged=False, milestones=("started", "main"))
    ended = plant(store.root, "20261122T020000Z", judged=False)
    index = open_index(store)
    with lock_run(paths):
        index.refresh()
        assert [each.state for each in index.runs()] == [RunState.NOT_JUDGED, RunState.RUNNING]
    index.refresh()
    states = {each.run_id: each.state for each in index.runs()}
    assert states == {paths.run_id: RunState.DIED, ended.run_id: RunState.NOT_JUDGED}


@pytest.mark.parametrize("damage", ["garbage", "truncated", "version", "columns", "folder"])
def test_a_damaged_index_is_made_anew_silently(store: Store, damage: str) -> None:
    plant(store.root, "20261122T010000Z", anomalies={"lost-write": anomaly()})
    opened(store).close()
    file = store.root / FILE_NAME
    match damage:
        case "garbage":
            file.write_bytes(os.urandom(20_000))
        case "truncated":
            file.write_bytes(file.read_bytes()[:5000])
        case "version":
            with sqlite3.connect(file) as other:
                other.execute("PRAGMA user_version = 999")
            other.close()
        case "columns":
            with sqlite3.connect(file) as other:
                other.execute("ALTER TABLE runs DROP COLUMN stamp")
            other.close()
        case _:
            file.unlink()
            file.mkdir()
    with opened(store) as index:
        assert index.count(RunQuery(anomaly="lost-write")) == 1
        assert len(index.signatures()) == 1


def test_an_index_that_is_damaged_under_our_hands_is_made_anew(store: Store) -> None:
    plant(store.root, "20261122T010000Z")
    with opened(store) as index, sqlite3.connect(store.root / FILE_NAME) as other:
        other.execute("DROP TABLE runs")
        other.commit()
        assert index.count() == 1
    other.close()


@pytest.mark.parametrize("when", ["opened", "refreshed", "asked"])
def test_an_index_that_others_hold_is_left_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setattr(database, "BUSY_S", 0.01)
    plant(store.root, "20261122T010000Z")
    opened(store).close()
    file = store.root / FILE_NAME
    before = file.stat().st_ino
    with contextlib.ExitStack() as both:
        index = both.enter_context(open_index(store)) if when != "opened" else None
        plant(store.root, "20261122T020000Z")
        other = both.enter_context(contextlib.closing(sqlite3.connect(file)))
        other.execute("BEGIN EXCLUSIVE")
        index = both.enter_context(open_index(store)) if index is None else index
        if when != "asked":
            assert index.refresh() == 2
        assert index.count() == 2
        assert file.stat().st_ino == before
    with opened(store) as index:
        assert (index.count(), file.stat().st_ino) == (2, before)


def test_two_processes_may_refresh_one_index(store: Store) -> None:
    for number in range(20):
        plant(store.root, f"20261122T01{number:02}00Z")
    with opened(store) as one, opened(store) as other:
        plant(store.root, "20261122T030000Z")
        assert (one.refresh(), other.refresh()) == (1, 0)
        assert one.count() == other.count() == 21


def test_queries_find_by_each_field(store: Store) -> None:
    a = plant(store.root, "20261122T010000Z", anomalies={"lost-write": anomaly()}).run_id
    b = plant(store.root, "20261122T020000Z", plan={"workload": "txn", "nemesis": "pause"}).run_id
    c = plant(
        store.root, "20261122T030000Z", plan={"system": "kafka:3.9.1", "seed": 12},
        because=["not enough"], night=night_of(NIGHTS[0], "log/3.9.1"),
    ).run_id  # fmt: skip
    d = plant(store.root, "20261122T040000Z", plan={"name": "other_"}, judged=False).run_id
    with opened(store) as index:
        assert ids(index) == [d, c, b, a]
        assert ids(index, limit=2, offset=1) == [c, b]
        assert index.count(RunQuery(limit=1)) == 4
        for fields, wanted in (
            ({"anomaly": "lost-write"}, [a]), ({"workload": "txn"}, [b]),
            ({"system": "kafka:3.9.1"}, [c]), ({"version": "4.3.1"}, [d, b, a]),
            ({"verdict": "unknown"}, [c]), ({"verdict": "unjudged"}, [d]), ({"seed": 12}, [c]),
            ({"seed": 2**80}, []), ({"fault": "pause"}, [b]), ({"fault": "partition"}, [d, c, a]),
            ({"fault": "isolate"}, [c, b, a]), ({"fault": "%"}, []), ({"suite": "nightly"}, [c]),
            ({"night": NIGHTS[0]}, [c]), ({"text": "LOST acknowledged"}, [a]),
            ({"text": "r_"}, [d]), ({"text": "a' OR 1=1 --"}, []),
            ({"signature": "' OR ''='"}, []),
        ):  # fmt: skip
            assert ids(index, **fields) == wanted, fields
        facets = index.facets()
    assert facets.versions == ("3.9.1", "4.3.1")
    assert facets.faults == ("isolate", "kill", "partition", "pause")
    assert facets.anomalies == ("lost-write",)


def test_one_broken_build_over_three_nights_is_one_signature(store: Store) -> None:
    for number, night in enumerate(NIGHTS):
        place = night_of(night, "log/kafka:4.3.1/kill+partition#1")
        symptoms = {name: anomaly(number + 1) for name in ("offset-order", "poll-skip")[:number]}
        plant(
            store.root, night.replace("0000Z", f"0{number}00Z"), plan={"seed": 100 + number},
            anomalies={"lost-write": anomaly(10 + number), **symptoms}, night=place,
        )  # fmt: skip
        plant(store.root, night.replace("T01", "T02"), plan={"workload": "txn"},
              night=night_of(night, "txn"))  # fmt: skip
    with opened(store) as index:
        (seen,) = index.signatures()
        nights = index.nights()
    assert (seen.times, seen.repeats.any) == (3, False)
    assert (seen.first_night, seen.last_night) == (NIGHTS[0], NIGHTS[2])
    assert seen.first.run_id == "log/20261120T010000Z-100"
    assert seen.last.run_id == "log/20261122T010200Z-102"
    assert [each.night for each in nights] == [*reversed(NIGHTS)]
    assert [each.new for each in nights] == [(), (), (seen.key,)]
    assert nights[0].verdicts == {"invalid": 1, "valid": 1}
    assert nights[0].signatures == (seen.key,)


def test_a_flaky_failure_has_a_rate_with_its_interval(store: Store) -> None:
    lost = {"lost-write": anomaly()}
    first = plant(store.root, "20261122T010000Z", anomalies=lost,
                  night=night_of(NIGHTS[2], "log"))  # fmt: skip
    for number in range(9):
        why = Why.SAME_SEED if number < 5 else Why.FRESH_SEED
        plant(
            store.root, f"20261122T0{number + 1}3000Z", plan={"seed": 7 if number < 5 else number},
            anomalies=lost if number in {2, 7} else {},
            night=night_of(NIGHTS[2], "log", why=why, repeats=first.run_id),
        )  # fmt: skip
    with opened(store) as index:
        (seen,) = index.signatures()
        ((newest, alike),) = index.rates(seen.key)
        others = index.repeats("no-such-key")
        elsewhere = index.repeats(seen.key, suite="another")
        before = index.repeats(seen.key, until=NIGHTS[1])
    assert seen.times == 3
    assert seen.repeats.words == "same seed: 1 of 5 (4 % to 62 %); new seeds: 1 of 4 (5 % to 70 %)"
    assert (alike.times, alike.of) == (2, 9), "all but the first"
    assert newest.settings == "acks=all"
    # As scipy.stats.binomtest(2, 9).proportion_ci(method="wilson") has them.
    assert alike.interval == pytest.approx((0.063225, 0.547411), abs=1e-6)
    assert [each.any for each in (others, elsewhere, before)] == [False] * 3


def test_a_run_without_a_verdict_counts_for_no_other_failure(store: Store) -> None:
    first = plant(store.root, "20261122T010000Z", anomalies={"lost-write": anomaly()})
    quiet = ["the run failed: no broker answered"]
    same = night_of(NIGHTS[2], "log", why=Why.SAME_SEED, repeats=first.run_id)
    again = {"plan": {"seed": 8}, "night": same}
    plant(store.root, "20261122T020000Z", because=quiet, **again)  # type: ignore[arg-type]  # by name
    plant(store.root, "20261122T030000Z", **again)  # type: ignore[arg-type]  # by name
    with opened(store) as index:
        quiet_one, lost = index.signatures()
        ((_, by_setting),) = index.rates(lost.key)
    assert (lost.times, quiet_one.times) == (1, 1)
    assert (by_setting.times, by_setting.of) == (0, 1)
    assert lost.repeats.words == "same seed: 0 of 1 (0 % to 79 %); new seeds: not repeated"
    assert not quiet_one.repeats.any, "it repeats a run that failed otherwise"


def test_what_leads_out_of_the_store_is_not_read(store: Store, tmp_path: Path) -> None:
    outside = plant(tmp_path / "elsewhere", "20261122T010000Z")
    (store.root / "log").mkdir(parents=True)
    (store.root / "log" / "20261122T020000Z-1").symlink_to(outside.root)
    (store.root / "linked").symlink_to(outside.root.parent)
    inside = plant(store.root, "20261122T030000Z", judged=False)
    inside.verdict.symlink_to(outside.verdict)
    (store.root / ".suites" / "20261122T040000Z-1").mkdir(parents=True)
    with opened(store) as index:
        (row,) = index.runs()
    assert (row.run_id, row.verdict) == (inside.run_id, "")


def test_a_run_of_damaged_files_is_a_row_that_says_so(store: Store) -> None:
    paths = plant(store.root, "20261122T010000Z")
    paths.plan.write_bytes(b"seed = \xff\xfe")
    paths.verdict.write_text("[" * 100_000, encoding="utf-8")
    paths.night.write_text("[]", encoding="utf-8")
    paths.milestones.write_bytes(b"\x00\n")
    with opened(store) as index:
        (row,) = index.runs()
    assert row.verdict == ""
    assert "plan" in row.trouble
    assert "verdict" in row.trouble
    assert "night" in row.trouble


@pytest.mark.parametrize("figure", ["NaN", "Infinity", "1e300", "1" + "0" * 400, "1" + "0" * 19])
def test_wild_figures_of_a_verdict_are_none(store: Store, figure: str) -> None:
    paths = plant(store.root, "20261122T010000Z")
    values = json.loads(paths.verdict.read_text(encoding="utf-8"))
    values["stats"] = {
        "ops": {"send": {"ok": "wild", "fail": 3}},
        "phases_s": {"main": "wild"},
        "faults": {"kill": {"confirmed": "wild"}},
    }
    text = json.dumps(values).replace('"wild"', figure)
    paths.verdict.write_text(text, encoding="utf-8")
    with opened(store) as index:
        (row,) = index.runs()
    assert (row.operations, row.throughput, row.faults) == (3, None, ())


def test_a_valid_run_with_what_is_allowed_has_a_tone_of_its_own_and_a_verdict_that_is_valid(
    store: Store,
) -> None:
    night = night_of(NIGHTS[2], "log")
    bare = plant(store.root, "20261122T010000Z", night=night)
    with opened(store) as index:
        assert (index.runs()[0].tone, index.nights()[0].tone) == ("valid", "valid")
    lost = {"lost-write": anomaly(2, allowed=True)}
    told = plant(store.root, "20261122T010100Z", night=night, anomalies=lost)
    with opened(store) as index:
        row, _ = index.runs()
        (night_row,) = index.nights()
        assert ids(index, verdict="allowed") == [told.run_id]
        assert ids(index, verdict="valid") == [told.run_id, bare.run_id]
    assert (row.verdict, row.tone, row.signature) == ("valid", "allowed", "")
    assert (night_row.tone, night_row.verdicts) == ("allowed", {"allowed": 1, "valid": 1})


def test_samples_are_rows_like_all_others(store: Store) -> None:
    planted_sample(store.root, "loss-acks-1", "20261122T010000Z")
    planted_sample(store.root, "leader-epoch-1-high-watermark", "20261122T020000Z")
    with opened(store) as index:
        story, loss = index.runs()
        assert ids(index, ending="as-told") == [story.run_id]
    assert (story.verdict, story.tone, story.signature) == ("invalid", "told", "")
    assert (story.scenario, story.workload, story.nemesis) == ("leader-epoch-1", "script", "")
    assert dict(story.faults) == {"cut": 1, "kill": 2}
    assert (loss.nemesis, dict(loss.faults)) == ("isolate", {"isolate": 2})
    assert loss.signature_sentence == ("Acknowledged writes were lost, with acks=1, under isolate.")


def forged(store: Store) -> Path:
    """Have the index say of an invalid run that all is well, as whoever can write it could."""
    with opened(store) as index:
        assert [row.verdict for row in index.runs()] == ["invalid"]
    file = store.root / FILE_NAME
    with contextlib.closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE runs SET verdict = 'valid', sentence = 'All is well'")
    return file


@pytest.mark.parametrize("whose", ["open", pytest.param("foreign", marks=AS_ROOT)])
def test_what_an_index_says_that_others_can_write_is_not_believed(whose: str, store: Store) -> None:
    plant(store.root, "20261122T010000Z", anomalies={"lost-write": anomaly()})
    file = forged(store)
    with opened(store) as index:
        assert [row.verdict for row in index.runs()] == ["valid"], "one's own is believed"
    if whose == "open":
        file.chmod(0o666)
    else:
        os.chown(file, 65534, 65534)
    with opened(store) as index:
        assert [row.verdict for row in index.runs()] == ["invalid"]
    assert file.stat().st_uid == os.geteuid()
    assert not file.stat().st_mode & 0o022


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_no_index_is_kept_where_others_can_put_a_journal_beside_it(mode: int, store: Store) -> None:
    plant(store.root, "20261122T010000Z", anomalies={"lost-write": anomaly()})
    file = forged(store)
    store.root.chmod(mode)
    before = file.read_bytes()
    with opened(store) as index:
        assert [row.verdict for row in index.runs()] == ["invalid"]
    assert file.read_bytes() == before
