"""Stores that others can write: what they put beside and above runs, and when."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.hosts.heal import Healed
from cluster.hosts.ledger import mark
from cluster.hosts.signals import environment_of
from harness.cli import exit_code
from harness.dead_runs import heal_dead_run
from harness.exit_codes import BAD_ARGUMENTS, NOT_HEALED, VALID
from harness.heal import heal_store
from harness.scratch import remove_scratch
from results.record.atomic import StoreError
from results.record.clock import wait_until
from results.record.milestones import Milestone, append_milestone, load_milestones
from results.record.paths import RunPaths
from results.samples import find_sample
from results.store import Store, is_alive, is_copy
from results.trust import UntrustedRunError, refuse_unless_own

NOBODY = 65534
PROBE = """
import os, sys
from pathlib import Path
from results.store import Store
store, make = Path(sys.argv[1]), sys.argv[2]
name = store / f".probe-{os.getpid()}"
os.mkfifo(name) if make == "pipe" else name.symlink_to(store.parent / "dear")
Store(store).check_usable()
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def run(store: Path) -> RunPaths:
    with Store(store).create("log", 7) as paths:
        append_milestone(paths.milestones, Milestone(name="main", at_ns=1))
        return paths


@pytest.fixture
def elsewhere(tmp_path: Path, run: RunPaths) -> Path:
    """A folder with a run's name in it, and what is dear to its owner."""
    folder = tmp_path / "elsewhere"
    (folder / run.root.name / "scratch" / "dear").mkdir(parents=True)
    return folder


@pytest.mark.parametrize("make", ["link", "pipe"])
def test_a_store_is_tried_by_a_file_that_nobody_can_foresee(make: str, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    dear = tmp_path / "dear"
    dear.write_text("dear")
    words = [sys.executable, "-c", PROBE, str(tmp_path / "runs"), make]
    subprocess.run(words, check=True, timeout=30)
    assert dear.read_text() == "dear"
    (put,) = (tmp_path / "runs").iterdir()
    assert put.is_symlink() == (make == "link"), "only what was put there is there"


def test_no_run_is_made_or_taken_in_by_a_link(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(["export", "sample:valid", "--as", "bundle", "-o", "run.tgz"]) == VALID
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    store.mkdir()
    for name in ("log", find_sample("valid").parent.name):
        (store / name).symlink_to(elsewhere)
    with (
        pytest.raises(StoreError, match=r"log is a link, but a store has no links; remove it"),
        Store(store).create("log", 7),
    ):
        raise AssertionError("it is made")
    assert exit_code(["import", "run.tgz", "--store", str(store)]) == BAD_ARGUMENTS
    assert "is a link, but a store has no links; remove it" in capfd.readouterr().err
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("which", ["store", "name"])
@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777, 0o755, 0o700])
def test_a_run_whose_place_others_can_take_is_not_acted_on(
    *, which: str, mode: int, store: Path, run: RunPaths, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = {"store": store, "name": run.root.parent}[which]
    folder.chmod(mode)
    if mode in {0o1777, 0o755, 0o700}:
        refuse_unless_own(run)
        return
    with pytest.raises(
        UntrustedRunError, match="other users can replace the contents of"
    ) as refused:
        refuse_unless_own(run)
    assert exit_code(["heal", "--store", str(store)]) == NOT_HEALED
    assert "is not used: other users can replace the contents of" in capfd.readouterr().err
    assert load_milestones(run.milestones)[-1].name == "main"
    subprocess.run(str(refused.value).partition("type: ")[2].split(), check=True)
    refuse_unless_own(run)
    assert folder.stat().st_mode & 0o777 == mode & 0o777, "it is shared as before"


@pytest.mark.needs("root")
def test_a_group_s_store_is_for_adding_runs_once_it_is_sticky(store: Path, run: RunPaths) -> None:
    os.chown(store, -1, NOBODY)
    store.chmod(0o2775)
    with pytest.raises(UntrustedRunError, match=r"type: chmod \+t "):
        refuse_unless_own(run)
    store.chmod(0o3775)
    refuse_unless_own(run)


@pytest.mark.parametrize("level", ["run", "name"])
def test_9_temporary_files_are_removed_of_the_run_alone(
    *, level: str, run: RunPaths, elsewhere: Path, tmp_path: Path
) -> None:
    """As if its folder had been replaced behind the gate."""
    run.scratch.mkdir()
    place = {"run": run.root, "name": run.root.parent}[level]
    shutil.move(place, tmp_path / "moved")
    place.symlink_to(elsewhere / run.root.name if level == "run" else elsewhere)
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        remove_scratch(run)
    assert (elsewhere / run.root.name / "scratch" / "dear").exists()


def test_a_run_is_held_while_it_is_healed(
    store: Path, run: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, held = run.lock.read_bytes(), list[bool]()

    def heal(paths: RunPaths) -> Healed:
        held.append(is_alive(paths))
        return heal_dead_run(paths)

    monkeypatch.setattr("harness.heal.heal_dead_run", heal)
    heal_store(store)
    assert held == [True]
    assert not is_alive(run)
    assert run.lock.read_bytes() == before, "it says who played it"
    run.lock.unlink()
    heal_store(store)
    assert not run.lock.exists()


@pytest.mark.parametrize("told", [
    {"kind": "flip-back", "node": "n1", "segment": "own.log", "position": 0, "byte": -1_000_000,
     "bit": 0, "base_offset": 0},
    {"kind": "flip-back", "node": "n1", "segment": "own.log", "position": 0, "byte": 5,
     "bit": 10**15, "base_offset": 0},
    {"kind": "resume", "node": "n1", "pid": 10**30, "start_ticks": 10**30},
    "ssh:~nosuchuser/hosts.toml",
    "a bug",
])  # fmt: skip
def test_18_whatever_is_wrong_with_one_run_the_others_are_healed(
    *,
    told: dict[str, object] | str,
    store: Path,
    run: RunPaths,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Store(store).create("log", 8) as bad:
        bad.node("n1").mkdir()
        batch = next((Path(__file__).parent.parent / "cluster_files").glob("data/**/0*0.log"))
        bad.node("n1").joinpath("own.log").write_bytes(batch.read_bytes()[:-1] + b"\xff")
        bad.plan.write_text(f'hosts = "{told}"\n')
    if isinstance(told, dict):
        bad.ledger.write_text(json.dumps({"fault_id": 1, "undo": [told]}) + "\n")
    if told == "a bug":

        def heal(paths: RunPaths) -> Healed:
            if paths.root == bad.root:
                raise IndexError("index out of range")
            return heal_dead_run(paths)

        monkeypatch.setattr("harness.heal.heal_dead_run", heal)
    with subprocess.Popen(["sleep", "600"], env=os.environ | mark(run.processes)) as left:
        wait_until(lambda: environment_of(left.pid), timeout_s=20, what="its environment")
        try:
            code = exit_code(["heal", "--store", str(store)])
            assert left.wait(5) == -signal.SIGKILL
        finally:
            left.kill()
    said = capfd.readouterr()
    assert code == (NOT_HEALED if told == "a bug" else VALID)
    assert f"killed sleep (process {left.pid})" in said.out
    if told == "a bug":
        why = "a bug of Logquake: IndexError: index out of range"
        assert said.err == f"logquake: {bad.run_id}: {why}\n"


EVIL = "\x1b]0;pwned\x07\x1b[2J\u202e"


@pytest.mark.needs("root")
def test_names_of_others_reach_no_terminal(
    store: Path, run: RunPaths, capfd: pytest.CaptureFixture[str]
) -> None:
    evil = store / EVIL / run.root.name
    shutil.copytree(run.root, evil)
    (evil / "record" / "x").symlink_to("/")
    for owner in (0, NOBODY):
        os.chown(evil, owner, owner)
        exit_code(["heal", "--store", str(store)])
        exit_code(["node", str(evil), "--store", str(store), "--end"])
        exit_code(["show", f"{EVIL}/none", "--store", str(store)])
        said = capfd.readouterr()
        assert "is not used" in said.out + said.err
        assert r"\x1b]0;pwned" in said.out + said.err
        assert not set("\x1b\x07\u202e") & set(said.out + said.err)


@pytest.fixture
def brought(store: Path, run: RunPaths) -> Iterator[RunPaths]:
    """A copy of a run that is under way elsewhere."""
    with Store(store.with_name("other")).create("log", 9) as alive:
        append_milestone(alive.milestones, Milestone(name="main", at_ns=1))
        place = run.root.with_name(alive.root.name)
        shutil.copytree(alive.root, place)
        yield RunPaths(place)


def test_a_copy_of_a_run_that_is_alive_elsewhere_did_not_die(
    store: Path, run: RunPaths, brought: RunPaths, capfd: pytest.CaptureFixture[str]
) -> None:
    assert is_copy(brought)
    assert not is_copy(run)
    for _ in range(2):
        assert exit_code(["heal", "--store", str(store)]) == VALID
    assert [each.name for each in load_milestones(brought.milestones)] == ["main"]
    assert [each.name for each in load_milestones(run.milestones)] == ["main", "failed"]
    said = capfd.readouterr().out
    assert f"{run.run_id}: the run's command ended in its main phase" in said
    assert brought.run_id not in said


def test_a_run_from_a_bundle_did_not_die_here(store: Path, run: RunPaths) -> None:
    (run.root / "bundle.json").write_text("{}")
    heal_store(store)
    assert [each.name for each in load_milestones(run.milestones)] == ["main"]


def test_a_run_of_before_the_lock_named_itself_is_taken_for_the_run(
    store: Path, run: RunPaths
) -> None:
    for text in ("", "1 2\n", "1 2 x\n", "1 2 3 4\n"):
        run.lock.write_text(text)
        assert not is_copy(run)
    heal_store(store)
    assert [each.name for each in load_milestones(run.milestones)] == ["main", "failed"]
