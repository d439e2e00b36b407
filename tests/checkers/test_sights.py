"""Each check tells truly what it has to see of a system; without it nothing is a false alarm."""

import shutil
from pathlib import Path, PurePath, PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from checkers.guarantees import guarantees, promises
from checkers.ingest import Problem, Unit
from checkers.protocol import Promise
from checkers.registry import CHECKERS
from checkers.run import judge_runs
from checkers.spark.nodes import _shown, _sight_of, read_node
from checkers.weakest import as_weakest, unread_sentences
from results.export.contents import belongs
from results.record.declared import Declared, Sight, dump_declared, reach_without
from results.record.paths import RunPaths
from results.record.plan import Plan
from results.record.tables import TABLES
from results.record.terms import QUORUM_TOPIC, Source, Validity
from results.record.verdict import Verdict
from results.verdict_json import verdict_text
from results.wording.headline import headline
from tests.broken.blind import without
from tests.broken.corpus import BASES
from tests.broken.record import Record
from tests.checkers.partition_rows import facts

ALL = frozenset(Sight)
CLIENTS = (
    "Valid, as far as clients can see: this system's replica logs, checkpoint files and metadata"
    " log cannot be read."
)
HEADLINES = [
    ({Sight.REPLICA_LOGS}, "clients can see: this system's replica logs cannot be read."),
    ({Sight.CHECKPOINTS}, "can be seen: this system's checkpoint files cannot be read."),
    ({Sight.METADATA_LOG}, "can be seen: this system's metadata log cannot be read."),
    ({Sight.LEADER_EPOCHS}, "can be seen: this system does not show its leader epochs."),
    (
        {Sight.HIGH_WATERMARKS},
        "can be seen: this system does not show its replicas' high watermarks.",
    ),
    ({Sight.QUORUM}, "can be seen: this system does not show its controllers' quorum."),
    ({Sight.ENDS}, "can be seen: this system does not show whether a broker ended by itself."),
]


def judged(base: str, sights: frozenset[Sight], folder: Path) -> Verdict:
    (verdict,) = judge_runs(
        [without(Record(BASES / base), sights).save(folder / "blind" / base)], engine="local"
    )
    return verdict


def idle(sights: frozenset[Sight]) -> set[str]:
    """Return the checks of whose kernels none is left without some sights."""
    fit = {each.name for each in CHECKERS if not each.sees & sights}
    return {each.name for each in CHECKERS} - fit


@pytest.mark.parametrize(("sights", "said"), HEADLINES)
def test_a_sound_run_stays_valid_whatever_cannot_be_seen(
    sights: set[Sight], said: str, tmp_path: Path
) -> None:
    verdict = judged("groups", frozenset(sights), tmp_path)
    assert (verdict.valid, verdict.unknown_because, verdict.anomalies) == (Validity.VALID, (), {})
    assert headline(verdict).sentence == f"Valid, as far as {said}"
    assert {verdict.checked[name] for name in idle(frozenset(sights))} <= {None}
    assert idle(frozenset(sights))


NIGHT = [pytest.param(each, marks=pytest.mark.night) for each in ("groups", "disks", "contents")]


@pytest.mark.parametrize("base", ["log", "txn", *NIGHT])
def test_clients_alone_are_enough_for_a_verdict(base: str, tmp_path: Path) -> None:
    verdict = judged(base, ALL, tmp_path)
    assert (verdict.valid, verdict.unknown_because) == (Validity.VALID, ())
    assert {verdict.checked[name] for name in idle(ALL)} == {None}
    looked_for = {name for name, rows in verdict.checked.items() if rows}
    assert {"lost-write", "duplicate", "inconsistent-offsets", "offset-order"} <= looked_for
    if base != "disks":  # There something was found, and is allowed.
        assert headline(verdict).sentence == CLIENTS
    assert any("does not show" in each for each in headline(verdict).more)


@pytest.mark.night
@pytest.mark.timeout(1800)
def test_every_base_stays_valid_without_each_sight(tmp_path: Path) -> None:
    roots = [
        without(Record(BASES / base), {sight}).save(tmp_path / "blind" / f"{base}-{sight.value}")
        for base in ("log", "txn", "groups", "disks", "contents")
        for sight in Sight
    ]
    verdicts = judge_runs(roots, engine="local")
    assert [each.run_id for each in verdicts if each.valid is not Validity.VALID] == []
    # No check needs the brokers' own logs: without them, fewer anomalies have an excuse.
    unlimited = {each.run_id.partition("-")[2] for each in verdicts if not each.reach}
    assert unlimited == {Sight.BROKER_LOGS.value}


def test_what_cannot_be_seen_stands_with_the_promise_that_it_concerns(tmp_path: Path) -> None:
    """Also what only whether a broker ended would tell stands there."""
    verdict = judged("log", frozenset({Sight.REPLICA_LOGS, Sight.ENDS}), tmp_path)
    (servers,) = (each for each in verdict.basis if each.promise.startswith("a broker runs"))
    assert servers.unshown[0].startswith(
        "broker-ended could not be detected: the system does not show"
    )
    (once,) = (each for each in verdict.basis if "idempotent" in each.promise)
    assert once.unshown[0].endswith(
        " could not be detected: the system does not show its replica logs"
    )
    assert any("whether a broker ended by itself" in each for each in headline(verdict).more)


def test_a_verdict_on_what_shows_everything_says_nothing_of_its_reach(tmp_path: Path) -> None:
    verdict = judged("log", frozenset(), tmp_path)
    assert (verdict.reach, '"reach"' in verdict_text(verdict)) == ((), False)
    assert headline(verdict).sentence == "Valid: every promise was kept."
    assert reach_without(frozenset()) == ()


def test_what_is_not_declared_is_not_read_of_a_nodes_files(tmp_path: Path) -> None:
    """A file that has another format may lie where Kafka's would, and is no damage."""
    node = tmp_path / "nodes" / "n1"
    shutil.copytree(BASES / "log" / "nodes" / "n1", node)
    (node / "data" / "replication-offset-checkpoint").write_text("anything", encoding="utf-8")
    read: dict[frozenset[Sight], tuple[int, list[Problem]]] = {}
    for sees in (ALL, ALL - {Sight.CHECKPOINTS}, ALL - {Sight.CHECKPOINTS, Sight.REPLICA_LOGS}):
        problems: list[Problem] = []
        unit = Unit(run_id="r", name="n1", folder=node, snapshot="final", sees=sees)
        batches = [rows for name, rows in read_node(unit, problems) if name == "replica_states"]
        states = pa.Table.from_batches(batches)
        read[sees] = (len(states), problems)
        if Sight.CHECKPOINTS not in sees:
            ours = states.filter(pc.not_equal(states["topic"], pa.scalar(QUORUM_TOPIC)))
            assert ours["epochs"].null_count == len(ours)
            assert not any("checkpoint" in each.sentence for each in problems)
    (all_rows, damage), (rows, _), (fewer, _) = read.values()
    assert any("replication-offset-checkpoint" in each.sentence for each in damage)
    assert all_rows == rows > fewer


def test_a_system_without_files_needs_no_folders_of_nodes(tmp_path: Path) -> None:
    """Its nodes keep their data as they like, and nobody tells how they ended."""
    root = without(Record(BASES / "log"), ALL).save(tmp_path / "blind" / "log")
    (root / "nodes" / "n1" / "data").mkdir(parents=True)
    (root / "nodes" / "n1" / "data" / "00000.log").write_bytes(b"of its own format")
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity.VALID


def test_a_strange_system_that_declared_nothing_makes_the_verdict_unknown(tmp_path: Path) -> None:
    record = Record(BASES / "log")
    record.plan["system"] = "command:kfake.toml"
    root = without(record, ALL).save(tmp_path / "blind" / "log")
    RunPaths(root).system.unlink()
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.valid is Validity.UNKNOWN
    assert any("system.json is missing" in each for each in verdict.unknown_because)


def test_notes_of_a_system_stand_in_its_verdict(tmp_path: Path) -> None:
    note = "min.insync.replicas could not be read, so nothing is promised about it"
    root = without(Record(BASES / "log"), ()).save(tmp_path / "blind" / "log")
    dump_declared(Declared(what="a test's", notes=(note,)), RunPaths(root).system)
    (verdict,) = judge_runs([root], engine="local")
    assert verdict.reach == (f"{note[0].upper()}{note[1:]}.",)
    assert headline(verdict).more == verdict.reach


def test_what_could_not_be_read_is_not_promised_and_is_told() -> None:
    told = Declared(unread=frozenset({"min.insync.replicas", "cleanup.policy", "of.its.own"}))
    weak = as_weakest(Plan(), told)
    assert (weak.least_insync, weak.min_insync) == (1, 1)
    assert "compact" in weak.broker["log.cleanup.policy"]
    assert unread_sentences(told)[1:] == (
        "the setting min.insync.replicas could not be read, so nothing is promised about it",
        "the setting of.its.own could not be read, so nothing is promised about it",
    )
    assert as_weakest(Plan(), Declared()) == Plan()
    about = facts(declared=told)
    assert "min.insync.replicas could not be read" in guarantees(about)[0]


def test_of_a_command_nothing_is_promised_that_only_kafka_has() -> None:
    """Nobody says that the program knows in-sync replicas, or unclean elections."""
    made = promises(facts(plan={"system": "command:kfake.toml"}))
    assert made[Promise.STORED] == "an acknowledged message is still stored at the end"
    assert Promise.LEADERS not in made
    assert "min.insync.replicas" in promises(facts())[Promise.STORED]


def test_a_verdict_with_something_allowed_says_how_far_it_reaches(tmp_path: Path) -> None:
    told = headline(judged("disks", frozenset({Sight.CHECKPOINTS}), tmp_path))
    assert told.sentence.startswith("Valid, by contract: ")
    assert told.sentence.endswith(
        " allowed, as far as can be seen: this system's checkpoint files cannot be read."
    )
    assert not any("checkpoint files" in each for each in told.more)


def test_rows_of_what_is_hidden_are_left_out_whoever_wrote_them() -> None:
    """Checkpoint files say nothing of the controllers' log, nor its damage of who votes."""
    files = ALL - {Sight.CHECKPOINTS, Sight.BROKER_LOGS}
    rows = [{"topic": topic, "high_watermark": 7} for topic in ("log-0", QUORUM_TOPIC)]
    states = pa.RecordBatch.from_pylist(rows, schema=TABLES["replica_states"])
    shown = _shown("replica_states", states, files)
    assert shown["high_watermark"].to_pylist() == [None, 7]
    cuts = pa.RecordBatch.from_pylist([{"topic": "log-0"}], schema=TABLES["truncations"])
    assert _shown("truncations", cuts, files).num_rows == 0
    sources = [{"source": each.value} for each in Source]
    led = pa.RecordBatch.from_pylist(sources, schema=TABLES["leadership"])
    left = {*_shown("leadership", led, files)["source"].to_pylist()}
    assert {each.value for each in Source} - left == {"server-log", "state-change-log"}
    metadata = PurePath("data") / f"{QUORUM_TOPIC}-0"
    assert _sight_of(metadata / "quorum-state") is Sight.QUORUM
    assert _sight_of(metadata / "00000000000000000000.log") is Sight.METADATA_LOG
    assert _sight_of(PurePath("logs/server.log")) is Sight.BROKER_LOGS


def test_a_bundle_takes_along_what_was_declared() -> None:
    """Without it nobody could judge a strange system's run again."""
    assert belongs(PurePosixPath("system.json"))
