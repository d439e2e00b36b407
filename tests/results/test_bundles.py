"""Bundles: a run goes through one file to another store, and nothing else ever does."""

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.heal import heal_store
from harness.judgement import Engine, judge_stored
from results.export.bundle import bundle_name, read_bundle, write_bundle
from results.record.atomic import StoreError
from results.record.paths import RunPaths
from results.report import render_report
from results.samples import copy_sample, find_sample
from results.store import Store, lock_run
from tests.results.conftest import MakeRun

RUN = "log/20261121T104500Z-7"
PLAN = (f"{RUN}/plan.toml", b"name = 'log'\n")
Members = Iterable[tuple[str | tarfile.TarInfo, bytes]]


def manifest(*, run_id: str = RUN, files: int = 1, size_bytes: int = 13) -> tuple[str, bytes]:
    values = {"schema_version": 1, "run_id": run_id, "files": files, "size_bytes": size_bytes}
    return f"{run_id}/bundle.json", json.dumps(values).encode()


def packed(members: Members, form: int = tarfile.USTAR_FORMAT) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=form) as archive:
        for name, content in members:
            member = tarfile.TarInfo(name) if isinstance(name, str) else name
            if isinstance(name, str):
                member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(plain.getvalue())


def special(kind: bytes, name: str = f"{RUN}/nodes/n1/logs/server.log") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = "/etc/passwd"
    return member


def taken_in(content: bytes, folder: Path) -> RunPaths:
    file = folder / "some.tar.gz"
    file.write_bytes(content)
    return read_bundle(file, Store(folder / "other"))


def everything(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


@pytest.mark.parametrize("sample", ["loss-acks-1", "leader-epoch-1-high-watermark"])
def test_a_run_is_judged_and_shown_elsewhere_as_it_was_here(sample: str, tmp_path: Path) -> None:
    run = copy_sample(RunPaths(find_sample(sample)), tmp_path)
    engine = Engine(name="local")
    judge_stored([run.root], judge=None, engine=engine)
    bundle = tmp_path / bundle_name(run)

    write_bundle(run, bundle)
    taken = read_bundle(bundle, Store(tmp_path / "other"))

    assert taken.root == tmp_path / "other" / "samples" / sample
    before, page = run.verdict.read_bytes(), render_report(taken)
    taken.verdict.unlink()
    judge_stored([taken.root], judge=None, engine=engine)
    assert taken.verdict.read_bytes() == before
    assert "step-08" in page or "lost-write" in page
    assert "damaged" not in page


def test_the_same_run_gives_the_same_bytes(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run()
    (run.record / "ingest.json").write_text("{}")
    first, second = tmp_path / "1.tar.gz", io.BytesIO()
    write_bundle(run, first)
    for path in run.root.rglob("*"):
        os.utime(path, (1, 1))
    run.plan.chmod(0o600)
    write_bundle(run, second)
    assert first.read_bytes() == second.getvalue()


def test_what_heals_or_shows_a_run_stays_at_home(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run()
    (run.record / "ingest.json").write_text("{}")
    for name in ("ledger.jsonl", "processes.jsonl", "ssh.json", "report.html", "timeline.html"):
        (run.root / name).write_text("{}")
    logs = run.node("n1") / "logs"
    logs.mkdir()
    (logs / "server.log").write_text("started\n")
    (logs / "passwd").symlink_to("/etc/passwd")
    data = run.node("n2") / "data" / "log-0-0"
    data.mkdir(parents=True)
    (data / "00000000000000000000.log").write_bytes(b"records")
    (data / "leader-epoch-checkpoint").write_text("0\n")
    (run.live / "polled.worker-0.arrows").write_bytes(b"rows")
    run.node("n3").mkdir()

    kept = {}
    for with_nodes in (False, True):
        bundle = tmp_path / f"{with_nodes}.tar.gz"
        write_bundle(run, bundle, with_nodes=with_nodes)
        taken = read_bundle(bundle, Store(tmp_path / f"other-{with_nodes}"))
        kept[with_nodes] = {each for each in everything(taken.root) if "." in each}

    more = {"nodes/n2/data/log-0-0/00000000000000000000.log", "record/live/polled.worker-0.arrows"}
    assert kept[True] - kept[False] == more
    assert "nodes/n1/logs/server.log" in kept[False]
    stays = {"ledger.jsonl", "processes.jsonl", "ssh.json", "report.html", "timeline.html",
             "nodes/n1/logs/passwd"}  # fmt: skip
    assert not kept[True] & stays
    assert taken.node("n3").is_dir()
    assert (taken.node("n2") / "data" / "log-0-0" / "leader-epoch-checkpoint").is_file()


def test_a_bundle_never_takes_the_place_of_a_run(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run()
    (run.record / "ingest.json").write_text("{}")
    write_bundle(run, tmp_path / "some.tar.gz")
    run.plan.write_text("# mine\n")
    before = everything(tmp_path / "runs")
    with pytest.raises(StoreError, match="already has a run log/20261121T104500Z-7"):
        read_bundle(tmp_path / "some.tar.gz", Store(tmp_path / "runs"))
    assert everything(tmp_path / "runs") == before
    assert run.plan.read_text() == "# mine\n"


def test_a_run_that_is_not_over_or_not_judged_is_not_bundled(
    make_run: MakeRun, tmp_path: Path
) -> None:
    run = make_run(judged=False)
    with pytest.raises(StoreError, match=r"was never judged.*--with-nodes"):
        write_bundle(run, tmp_path / "some.tar.gz")
    with lock_run(run), pytest.raises(StoreError, match="still running"):
        write_bundle(run, tmp_path / "some.tar.gz", with_nodes=True)
    assert not (tmp_path / "some.tar.gz").exists()


def test_a_sound_bundle_made_by_hand_is_taken_in(tmp_path: Path) -> None:
    """So that the refusals below are for what they say."""
    taken = taken_in(packed([manifest(), PLAN]), tmp_path)
    assert taken.plan.read_bytes() == PLAN[1]


HOSTILE: dict[str, tuple[bytes, str]] = {
    "no archive": (b"PK\x03\x04", "not a bundle"),
    "another archive": (packed([PLAN]), "not bundle.json"),
    "empty": (packed([]), "not bundle.json"),
    "up": (
        packed([manifest(files=2), PLAN, (f"{RUN}/../../../evil", b"x")]),
        "not a file of a run",
    ),
    "up below a node": (
        packed([manifest(files=2), PLAN, (f"{RUN}/nodes/n1/../../../evil", b"x")]),
        "not a file of a run",
    ),
    "absolute": (packed([manifest(files=2), PLAN, ("/tmp/evil", b"x")]), "not a file of a run"),  # noqa: S108 - must not be written
    "another run": (
        packed([manifest(files=2), PLAN, ("log/20261121T104500Z-8/plan.toml", b"x")]),
        "not a file of a run",
    ),
    "a script": (
        packed([manifest(files=2), PLAN, (f"{RUN}/report.html", b"<script>")]),
        "not a file of a run",
    ),
    "what heal would do": (
        packed([manifest(files=2), PLAN, (f"{RUN}/ledger.jsonl", b"{}")]),
        "not a file of a run",
    ),
    "named latest": (
        packed([manifest(run_id="latest/x"), ("latest/x/plan.toml", PLAN[1])]),
        "cannot be the name",
    ),
    "hidden": (packed([manifest(run_id=".suites/x")]), "cannot be the name"),
    "named out": (packed([manifest(run_id="../x")]), "cannot be the name"),
    "link": (packed([manifest(), PLAN, (special(tarfile.SYMTYPE), b"")]), "links, devices"),
    "hard link": (packed([manifest(), PLAN, (special(tarfile.LNKTYPE), b"")]), "links, devices"),
    "device": (packed([manifest(), PLAN, (special(tarfile.CHRTYPE), b"")]), "links, devices"),
    "pipe": (packed([manifest(), PLAN, (special(tarfile.FIFOTYPE), b"")]), "links, devices"),
    "hidden header": (
        packed([manifest(), PLAN, (f"{RUN}/nodes/n1/logs/{'a' * 300}", b"")], tarfile.PAX_FORMAT),
        "links, devices",
    ),
    "more than told": (
        packed([manifest(size_bytes=14), PLAN, (f"{RUN}/nodes/n1/logs/a", b"xy")]), "announced",
    ),
    "more files than told": (
        packed([manifest(), PLAN, (f"{RUN}/nodes/n1/logs/a", b"")]), "announced",
    ),
    "less than told": (packed([manifest(size_bytes=14), PLAN]), "less data than it announced"),
    "twice": (packed([manifest(files=2, size_bytes=26), PLAN, PLAN]), "twice"),
    "bomb": (packed([manifest(size_bytes=10**10), PLAN]), "would unpack to"),
    "bomb behind the end": (
        packed([manifest(), PLAN])[:-8] + gzip.compress(bytes(1 << 22)), "not a bundle|its end",
    ),
    "bomb after the end": (
        packed([manifest(), PLAN]) + gzip.compress(bytes(1 << 22)), "data after its end",
    ),
    "without a plan": (
        packed([manifest(), (f"{RUN}/topics.json", b"0" * 13)]), "no plan.toml",
    ),
    "a later record": (
        packed([(f"{RUN}/bundle.json",
                 json.dumps({"schema_version": 9, "run_id": RUN, "files": 1,
                             "size_bytes": 1}).encode()), PLAN]),
        "version 9",
    ),
    "cut": (packed([manifest(), PLAN])[:-20], "not a bundle"),
    "flipped": (packed([manifest(), PLAN])[:-8] + b"\0" * 8, "not a bundle"),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_or_damaged_bundle_is_refused_and_leaves_nothing(
    what: str, tmp_path: Path
) -> None:
    content, sentence = HOSTILE[what]
    with pytest.raises(StoreError, match=sentence):
        taken_in(content, tmp_path)
    assert everything(tmp_path) <= {"some.tar.gz", "other"}


HELD_BACK = """
import sys
from pathlib import Path
from results.export import bundle
from results.store import Store

def held_back(*_):
    print("unpacked", flush=True)
    sys.stdin.read()

bundle._settle = held_back
bundle.read_bundle(Path(sys.argv[1]), Store(Path(sys.argv[2])))
"""


@contextmanager
def importing(file: Path, store: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start an import that has unpacked everything, and waits before the last step."""
    with subprocess.Popen(
        [sys.executable, "-c", HELD_BACK, str(file), str(store)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"unpacked\n"
            yield process
        finally:
            process.kill()


def unpacked(store: Path) -> set[str]:
    return {path.name for path in store.glob(".import-*") if (path / "plan.toml").is_file()}


@pytest.mark.parametrize("by", ["import", "heal"])
def test_what_a_killed_import_left_is_removed_and_never_a_living_ones(
    tmp_path: Path, by: str
) -> None:
    file, other, store = (tmp_path / name for name in ("a.tar.gz", "b.tar.gz", "runs"))
    file.write_bytes(packed([manifest(), PLAN]))
    run = "log/20261121T104501Z-8"
    other.write_bytes(packed([manifest(run_id=run), (f"{run}/plan.toml", b"name = 'log'\n")]))
    with importing(file, store):
        (alive,) = unpacked(store)
        with importing(file, store) as killed:
            assert len(unpacked(store)) == 2
            killed.kill()
        assert len(unpacked(store)) == 2
        if by == "import":
            read_bundle(other, Store(store))
        else:
            told = heal_store(store).done
            assert [each for each in told if "the folder of a killed import" in each]
        assert unpacked(store) == {alive}
    # Its owner is gone now, too; of a run that was taken in, nothing is ever removed.
    read_bundle(file, Store(store))
    assert unpacked(store) == set()
    assert (store / RUN / "plan.toml").is_file()
