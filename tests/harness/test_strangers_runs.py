"""Run folders that somebody else wrote: what commands do not do because of them."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from cluster.hosts.ledger import ProcessLedger, mark
from cluster.hosts.signals import environment_of, is_running, process_id
from cluster.hosts.ssh.run import FILE, id_of
from harness.cli import exit_code
from harness.exit_codes import BAD_ARGUMENTS, NOT_HEALED, VALID
from harness.heal import heal_store
from harness.keep import Kept, Machine
from harness.suites.journal import Begun, Journal, Planned, Started
from harness.suites.leading import Resumption, opened
from harness.suites.nights import NightFolder, suite_folder
from harness.suites.retention import retire
from harness.suites.suite import SuiteError, load_suite
from results.index.catalogue import FILE_NAME
from results.index.database import connect
from results.nights import write_night
from results.record.clock import unix_s, wait_until
from results.record.milestones import Milestone, append_milestone
from results.record.night import Night
from results.record.paths import RunPaths
from results.record.plan import dump_plan, plan_from
from results.record.world import world
from results.samples import find_sample
from results.site import make_site
from results.store import Store, is_alive, lock_run, process_of
from results.trust import NotOursError, UntrustedRunError, refuse_unless_own

NOBODY = 65534
LIMIT_S = 60
AS_ROOT = pytest.mark.needs("root")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def paths(store: Path) -> RunPaths:
    with Store(store).create("log", 7) as paths:
        paths.plan.write_text(dump_plan(plan_from({})), encoding="utf-8")
    return paths


@pytest.fixture
def stranger() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


def snapshot(folder: Path) -> dict[str, bytes | str]:
    """Return what lies in a folder: contents, and where links lead; not the store's own index."""
    return {
        str(path): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in folder.rglob("*")
        if (path.is_symlink() or path.is_file()) and path.name != FILE_NAME
    }


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Return a folder with files that no command may touch."""
    folder = tmp_path / "elsewhere"
    shutil.copytree(find_sample("valid"), folder)
    (folder / "scratch").mkdir()
    (folder / "scratch" / "dear").write_text("dear")
    return folder


def test_3_heal_kills_no_process_that_only_a_ledger_names(
    store: Path, paths: RunPaths, stranger: "subprocess.Popen[bytes]"
) -> None:
    process = process_id(stranger.pid)
    ProcessLedger(paths.processes).started("java", "n1", process)
    assert exit_code(["heal", "--store", str(store)]) == VALID
    assert is_running(process)


@pytest.mark.parametrize("pid", ["1", "0", "-1", '"1"'])
def test_4_heal_reads_no_number_that_means_more_than_a_process(
    pid: str, store: Path, paths: RunPaths, capfd: pytest.CaptureFixture[str]
) -> None:
    first = process_id(1)
    ProcessLedger(paths.processes).started("java", "n1", first)
    text = paths.processes.read_text().replace('"pid": 1,', f'"pid": {pid},')
    paths.processes.write_text(text)
    assert exit_code(["heal", "--store", str(store)]) == VALID
    assert capfd.readouterr().out == "nothing to heal\n"


def test_5_heal_removes_no_file_that_a_number_leads_to(
    store: Path, paths: RunPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.hosts.leavings.PLACES", [(str(tmp_path), "hsperfdata_*/{pid}")])
    (tmp_path / "hsperfdata_root").mkdir()
    dear = tmp_path / "dear"
    dear.touch()
    line = {
        "what": "java", "node": "n1", "pid": "../dear", "start_ticks": 1, "world": world(),
        "machine": "", "since_s": 0.0,
    }  # fmt: skip
    for written in (line, {**line, "boot": world().partition("/")[0]}):
        paths.processes.write_text(json.dumps(written) + "\n")
        assert exit_code(["heal", "--store", str(store)]) == VALID
    assert dear.exists()


def test_6_heal_logs_in_nowhere_because_a_run_says_so(
    store: Path, paths: RunPaths, capfd: pytest.CaptureFixture[str]
) -> None:
    host = {
        "name": "n1", "address": "127.0.0.1", "ssh_address": "127.0.0.1", "port": 1, "user": "root",
        "key": str(paths.root / "id"), "known_hosts": str(paths.root / "known_hosts"),
        "folder": "/", "java": "java", "sudo": False, "ttl_s": 60.0,
    }  # fmt: skip
    (paths.root / "HOSTS.toml").write_text('[[hosts]]\naddress = "127.0.0.1"\n')
    paths.plan.write_text(f'hosts = "ssh:{paths.root}/HOSTS.toml"\n')
    for run in ("home", "0123456789abcdef"):
        (paths.root / FILE).write_text(json.dumps({"run": run, "hosts": {"n1": host}}))
        code = exit_code(["heal", "--store", str(store)])
        assert code == (VALID if run == "home" else NOT_HEALED)
    assert "in another folder or on another machine" in capfd.readouterr().err


def test_6_heal_takes_a_key_from_no_file_in_the_store(
    store: Path, paths: RunPaths, capfd: pytest.CaptureFixture[str]
) -> None:
    hosts = paths.root / "HOSTS.toml"
    hosts.write_text('[[hosts]]\naddress = "127.0.0.1"\n')
    paths.plan.write_text(f'hosts = "ssh:{hosts}"\n')
    (paths.root / FILE).write_text(json.dumps({"run": id_of(paths.root), "hosts": {}}))
    assert exit_code(["heal", "--store", str(store)]) == NOT_HEALED
    assert (
        f"their file {hosts} must belong to you, be writable only by you" in capfd.readouterr().err
    )


def kept_by(pid: int, folder: Path) -> Kept:
    ticks = process_id(pid).start_ticks
    return Kept(
        world=world(), hosts="namespace", bootstrap="", zookeeper="",
        machines={"n1": Machine(pid=pid, start_ticks=ticks, folder=str(folder))},
    )  # fmt: skip


def test_7_a_command_enters_no_process_but_the_run_s(
    store: Path,
    paths: RunPaths,
    stranger: "subprocess.Popen[bytes]",
    capfd: pytest.CaptureFixture[str],
) -> None:
    def said(kept: str) -> str:
        paths.keeper.write_text(kept)
        command = ["node", "--store", str(store), "latest", "n1", "--", "touch", "entered"]
        assert exit_code(command) == BAD_ARGUMENTS
        return capfd.readouterr().err

    node = paths.kept / "nodes" / "n1"
    node.mkdir(parents=True)
    hostile = kept_by(stranger.pid, node).model_dump_json()
    assert f"process {stranger.pid} does not belong to the run" in said(hostile)
    assert "cannot be read" in said(hostile.replace(f'"pid":{stranger.pid}', '"pid":1'))
    with subprocess.Popen(["sleep", "600"], env=os.environ | mark(paths.processes)) as agent:
        wait_until(lambda: environment_of(agent.pid), timeout_s=20, what="its environment")
        outside = kept_by(agent.pid, store).model_dump_json()
        assert "the folder of n1 does not belong to the run" in said(outside)
        agent.kill()
    assert not list(store.rglob("entered"))


def linked(name: str, paths: RunPaths, elsewhere: Path) -> None:
    """Put a link to elsewhere in the place of a part of a run."""
    part = paths.root / name
    if part.is_dir():
        shutil.rmtree(part)
    part.unlink(missing_ok=True)
    part.symlink_to(elsewhere / name)


PARTS = ["record", "record/ops.parquet", "record/ingest.json", "statistics",
         "statistics/rates.parquet", "scratch", "lock", "processes.jsonl", "ledger.jsonl",
         "milestones.jsonl", "plan.toml", "verdict.json"]  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_8_nothing_is_written_or_healed_by_a_link(
    *, part: str, store: Path, paths: RunPaths, elsewhere: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(find_sample("valid"), paths.root, dirs_exist_ok=True)
    (elsewhere / "lock").touch()
    linked(part, paths, elsewhere)
    before = snapshot(elsewhere)
    assert exit_code(["heal", "--store", str(store)]) == NOT_HEALED
    assert f"{part} is a link, but a run never creates one; remove it" in capfd.readouterr().err
    for command in (["check", "--engine", "local"], ["repro"], ["report"], ["timeline"]):
        assert exit_code([*command, "--store", str(store), paths.run_id]) == BAD_ARGUMENTS
    assert snapshot(elsewhere) == before


def test_9_a_run_that_is_a_link_out_of_the_store_is_left_alone(
    store: Path, paths: RunPaths, elsewhere: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(paths.root)
    paths.root.symlink_to(elsewhere)
    (store / "linked").symlink_to(elsewhere.parent)
    before = snapshot(elsewhere)
    assert exit_code(["heal", "--store", str(store)]) == VALID
    said = capfd.readouterr().out
    assert " is not used: it is a link; name the folder" in said
    assert said.endswith("(and 1 more is not yours)\n")
    assert snapshot(elsewhere) == before


@pytest.mark.parametrize("name", ["statistics", "record/live"])
def test_8_a_file_in_the_place_of_a_folder_is_named(
    name: str, store: Path, paths: RunPaths, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(find_sample("valid"), paths.root, dirs_exist_ok=True)
    shutil.rmtree(paths.root / name)
    (paths.root / name).touch()
    for command in (["heal"], ["check", paths.run_id, "--engine", "local"]):
        assert exit_code([*command, "--store", str(store)]) in {NOT_HEALED, BAD_ARGUMENTS}
        assert f"{name} must be a folder, but is a file; remove it" in capfd.readouterr().err


def test_a_bundle_of_files_without_an_end_is_refused(
    store: Path, paths: RunPaths, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(find_sample("valid"), paths.root, dirs_exist_ok=True)
    os.truncate(next(paths.nodes.glob("*/data/*-checkpoint")), 1 << 40)
    words = ["export", paths.run_id, "--as", "bundle", "-o", str(tmp_path / "out")]
    assert exit_code([*words, "--store", str(store)]) == BAD_ARGUMENTS
    assert "but a bundle may have at most" in capfd.readouterr().err


HOLDER = """
import sys
from pathlib import Path
from results.record.paths import RunPaths
from results.store import lock_run
with lock_run(RunPaths(Path(sys.argv[1]))):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def held_in_another_namespace(paths: RunPaths) -> Iterator["subprocess.Popen[str]"]:
    """A run under way in another namespace of processes, as in another container."""
    inside = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    with subprocess.Popen(
        [*inside, sys.executable, "-c", HOLDER, str(paths.root)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | mark(paths.processes),
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder
        holder.kill()


def test_11_a_run_in_another_namespace_is_alive_and_left_alone(
    store: Path,
    paths: RunPaths,
    held_in_another_namespace: "subprocess.Popen[str]",
    capfd: pytest.CaptureFixture[str],
) -> None:
    append_milestone(paths.milestones, Milestone(name="main", at_ns=1))
    assert is_alive(paths)
    assert process_of(paths) is None, "its number means another process here"
    for _ in range(20):
        assert exit_code(["heal", "--store", str(store)]) == VALID
    assert (
        capfd.readouterr().out == f"{paths.run_id} is still running, so it was not changed\n" * 20
    )
    others_leave_alone(store, paths, held_in_another_namespace)


def others_leave_alone(store: Path, paths: RunPaths, holder: "subprocess.Popen[str]") -> None:
    """Judge, serve, export and play a night beside a run that is under way elsewhere."""
    for command in (["check", "latest"], ["export", "latest", "--as", "bundle"]):
        assert exit_code([*command, "--store", str(store)]) == BAD_ARGUMENTS
    client = make_site(Store(store)).test_client()
    for url in ("/", f"/run/{paths.run_id}/report.html", f"/bundle/{paths.run_id}"):
        client.get(url, buffered=True)
    night(store, paths)
    assert holder.poll() is None
    assert is_alive(paths)


SUITE = """\
name = "made"
budget = "1h"
[keep]
days = 1
[[entries]]
name = "calm"
seeds = [1]
"""


def night(store: Path, paths: RunPaths) -> None:
    """Let a night go on whose journal says that the run is one of its own, long dead."""
    folder = NightFolder(root=suite_folder(store, "made") / "20261121T010000Z")
    folder.root.mkdir(parents=True, exist_ok=True)
    folder.suite.write_text(SUITE, encoding="utf-8")
    suite = folder.root.parent.parent.parent / "made.toml"
    suite.write_text(SUITE, encoding="utf-8")
    folder.journal.unlink(missing_ok=True)
    Journal(folder.journal).write(
        Planned(item=1, entry="calm#1", seed=1),
        Started(item=1, run_id=paths.run_id),
        Begun(suite="made", night=folder.night, budget_s=3600),
    )
    write_night(paths.night, Night(suite="made", night=folder.night, entry="calm#1"))
    with (
        patch("harness.suites.leading.DEAD_TIMEOUT_S", 0.2),
        pytest.raises(SuiteError, match="is still running, although its night's process has died"),
        opened(suite, store, mode=Resumption.RESUME),
    ):
        raise AssertionError("it goes on")
    assert retire(store, load_suite(suite), now_s=unix_s() + 1e9) == []


@pytest.mark.night
@pytest.mark.timeout(1200)
def test_11_twenty_of_twenty(
    store: Path, paths: RunPaths, held_in_another_namespace: "subprocess.Popen[str]"
) -> None:
    append_milestone(paths.milestones, Milestone(name="main", at_ns=1))
    for _ in range(20):
        assert exit_code(["heal", "--store", str(store)]) == VALID
        others_leave_alone(store, paths, held_in_another_namespace)


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("name", ["lock", "ledger.jsonl", "plan.toml", "milestones.jsonl",
                                  "processes.jsonl", "verdict.json"])  # fmt: skip
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to(path)])
def test_18_to_20_a_bad_run_hangs_no_command_and_keeps_no_other_from_being_healed(
    *,
    name: str,
    make: Callable[[Path], None],
    store: Path,
    paths: RunPaths,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Store(store).create("other", 8) as other:
        pass
    (paths.root / name).unlink(missing_ok=True)
    make(paths.root / name)
    with subprocess.Popen(["sleep", "600"], env=os.environ | mark(other.processes)) as left:
        wait_until(lambda: environment_of(left.pid), timeout_s=20, what="its environment")
        assert exit_code(["heal", "--store", str(store)]) == NOT_HEALED
        assert left.wait(20) == -9
    said = capfd.readouterr()
    assert f"{other.run_id}: killed sleep (process {left.pid})" in said.out
    assert said.err.startswith(f"logquake: {paths.run_id} is not used: ")
    assert len(said.err.splitlines()) == 1
    assert exit_code(["runs", "--store", str(store)]) == VALID
    assert exit_code(["check", "--store", str(store), paths.run_id]) == BAD_ARGUMENTS
    assert "Traceback" not in capfd.readouterr().err


def test_21_a_deeply_nested_line_keeps_nothing_from_being_healed(
    store: Path, paths: RunPaths, capfd: pytest.CaptureFixture[str]
) -> None:
    deep = "[" * 200_000 + "\n"
    for file in (paths.processes, paths.ledger, paths.milestones, paths.root / FILE, paths.night):
        file.write_text(deep)
    with subprocess.Popen(["sleep", "600"], env=os.environ | mark(paths.processes)) as left:
        wait_until(lambda: environment_of(left.pid), timeout_s=20, what="its environment")
        assert exit_code(["heal", "--store", str(store)]) == VALID
        assert left.wait(20) == -9
    assert "killed sleep" in capfd.readouterr().out


def test_22_an_index_that_is_a_link_is_made_anew_in_its_place(tmp_path: Path) -> None:
    dear, index = tmp_path / "dear.sqlite", tmp_path / ".index.sqlite"
    connection = connect(dear)
    connection.execute("PRAGMA user_version = 1")
    connection.execute("INSERT INTO faults VALUES ('a', 'b')")
    connection.close()
    before = dear.read_bytes()
    index.symlink_to(dear)
    connect(index).close()
    assert dear.read_bytes() == before
    assert not index.is_symlink()
    assert index.is_file()


@AS_ROOT
@pytest.mark.parametrize("part", ["", "plan.toml", "record/live"])
def test_a_run_of_another_user_is_not_acted_on(
    *,
    part: str,
    store: Path,
    paths: RunPaths,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(find_sample("valid"), paths.root, dirs_exist_ok=True)
    os.chown(paths.root / part, NOBODY, -1)
    with pytest.raises(UntrustedRunError, match="belongs to nobody"):
        refuse_unless_own(paths)
    before = snapshot(store)
    healed = heal_store(store)
    assert not healed.done if part else not healed.failed
    for command in (["node", paths.run_id, "--end"], ["repro", paths.run_id],
                    ["check", paths.run_id], ["report", paths.run_id],
                    ["timeline", paths.run_id]):  # fmt: skip
        assert exit_code([*command, "--store", str(store)]) == BAD_ARGUMENTS
        assert "belongs to nobody" in capfd.readouterr().err
    # Who only reads may.
    assert exit_code(["show", paths.run_id, "--store", str(store)]) == VALID
    for drawn in ("report", "timeline"):
        page = [drawn, paths.run_id, "--output", str(tmp_path / f"{drawn}.html")]
        assert exit_code([*page, "--store", str(store)]) == VALID
    words = ["check", paths.run_id, "--judge", "contract", "--engine", "local"]
    assert exit_code([*words, "--store", str(store)]) == VALID
    assert snapshot(store) == before


@pytest.mark.parametrize(("mode", "own"), [(0o755, True), (0o700, True), (0o757, False)])
def test_a_run_that_others_can_write_is_not_acted_on(
    *, mode: int, own: bool, store: Path, paths: RunPaths
) -> None:
    paths.root.chmod(mode)
    if own:
        refuse_unless_own(paths)
        return
    with pytest.raises(UntrustedRunError, match=r"other users can write .*; type: chmod -R go-w"):
        refuse_unless_own(paths)
    (failed,) = heal_store(store).failed
    subprocess.run(failed.partition("type: ")[2].split(), check=True)
    refuse_unless_own(paths)


def test_a_lock_is_neither_made_nor_taken_by_a_link(paths: RunPaths, tmp_path: Path) -> None:
    dear = tmp_path / "dear"
    dear.write_text("dear")
    paths.lock.unlink()
    paths.lock.symlink_to(dear)
    with pytest.raises(Exception, match="cannot be used"):
        lock_run(paths)
    assert dear.read_text() == "dear"


def test_a_held_lock_means_alive_whatever_it_says(paths: RunPaths) -> None:
    with paths.lock.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for text in ("", "4194305 nowhere\n", "4194305\n", "x" * 99):
            paths.lock.write_text(text)
            assert is_alive(paths)
    assert not is_alive(paths)
    assert issubclass(NotOursError, UntrustedRunError)
