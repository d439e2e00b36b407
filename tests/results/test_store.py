import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from results.record.atomic import write_atomically
from results.record.clock import wait_until
from results.record.paths import RunPaths
from results.store import Store, StoreError, is_alive, lock_run, process_of
from tests.machine import needs

HOLDER = """
import sys
from pathlib import Path
from results.store import Store
with Store(Path(sys.argv[1])).create("log", 7) as paths:
    print(paths.root, flush=True)
    sys.stdin.read()
"""

FORKER = """
import os, sys, signal
from pathlib import Path
from results.store import Store
with Store(Path(sys.argv[1])).create("log", 7) as paths:
    child = os.fork()
    if child == 0:
        signal.pause()
    print(paths.root, child, flush=True)
    sys.stdin.read()
"""


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], 60)
    assert readable, "the other process never answered"
    return process.stdout.readline().strip()


@contextmanager
def other_process(script: str, root: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", script, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def make(store: Store, name: str = "log", seed: int = 7) -> RunPaths:
    with store.create(name, seed) as paths:
        return paths


def test_runs_of_the_same_second_get_folders_of_their_own(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    made = [make(store) for _ in range(12)]
    assert len({paths.root for paths in made}) == 12
    assert [paths.run_id for paths in store.runs()] == [paths.run_id for paths in reversed(made)]


def test_latest_is_a_relative_link_to_the_newest_run(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    make(store)
    newest = make(store, "txn", 3)
    link = tmp_path / "runs" / "latest"
    assert link.is_symlink()
    assert not link.readlink().is_absolute()
    assert store.find("latest") == newest
    # A store that was moved as a whole keeps its newest run.
    moved = (tmp_path / "runs").rename(tmp_path / "elsewhere")
    assert Store(moved).find("latest").run_id == newest.run_id
    assert len(Store(moved).runs()) == 2


def test_runs_are_listed_while_another_run_becomes_the_newest(tmp_path: Path) -> None:
    store, over = Store(tmp_path / "runs"), threading.Event()
    made = make(store)

    def relink() -> None:
        link = store.root / ".latest-1"
        while not over.is_set():
            link.symlink_to(made.root)
            link.replace(store.root / "latest")

    with ThreadPoolExecutor(1) as pool:
        relinked = pool.submit(relink)
        try:
            assert [store.runs() for _ in range(200)] == [[made]] * 200
        finally:
            over.set()
        relinked.result()


def test_a_run_s_folder_is_named_without_ways_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container only the run's own folder exists: there is nothing to go up from."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with Store(Path("../elsewhere")).create("log", 7) as paths:
        assert paths.root.parent == tmp_path / "elsewhere" / "log"
    with Store(Path("runs")).create("log", 7) as paths:
        assert paths.root.parent == Path("runs/log"), "as it was asked for"


def test_two_processes_never_share_a_run(tmp_path: Path) -> None:
    with other_process(HOLDER, tmp_path) as holder:
        paths = RunPaths(Path(read_line(holder)))
        assert is_alive(paths)
        assert process_of(paths) == holder.pid
        with pytest.raises(StoreError, match=f"in use by process {holder.pid}"):
            lock_run(paths)
        holder.send_signal(signal.SIGKILL)
        holder.wait(60)
        assert not is_alive(paths)
        with lock_run(paths):
            assert is_alive(paths)
            assert process_of(paths) == os.getpid()
        assert not is_alive(paths)


def test_a_worker_that_outlives_its_controller_does_not_keep_the_run_alive(tmp_path: Path) -> None:
    with other_process(FORKER, tmp_path) as forker:
        root, child = read_line(forker).rsplit(" ", 1)
        paths = RunPaths(Path(root))
        try:
            assert is_alive(paths)
            forker.send_signal(signal.SIGKILL)
            forker.wait(60)
            os.kill(int(child), 0)  # It lives, and does not hold the lock.
            wait_until(lambda: not is_alive(paths), timeout_s=30, what="the controller's end")
        finally:
            os.kill(int(child), signal.SIGKILL)


def test_a_run_is_found_by_path_id_or_an_unambiguous_part(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    first, second = make(store, "log", 41), make(store, "acks", 42)
    assert store.find(str(first.root)) == first
    assert store.find(first.run_id) == first
    assert store.find("-42") == second
    assert store.find("acks") == second
    with pytest.raises(StoreError, match=r"could mean .*acks/.*log/|could mean .*log/.*acks/"):
        store.find("-4")
    with pytest.raises(StoreError, match="there is no run 'nothing'"):
        store.find("nothing")
    with pytest.raises(StoreError, match="there is no run ''"):
        store.find("")


def test_a_whole_id_wins_over_ids_that_begin_like_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name in ("20260101T000000Z-1", "20260101T000000Z-1-2", "20260101T000000Z-10"):
        (tmp_path / "log" / name).mkdir(parents=True)
    assert store.find("log/20260101T000000Z-1").root.name == "20260101T000000Z-1"
    names = [paths.root.name for paths in store.runs()]
    assert names[0] == "20260101T000000Z-1-2"


def test_patterns_find_many_runs(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    made = {make(store, "log", seed).root for seed in range(3)}
    assert {paths.root for paths in store.find_all("log/*")} == made
    assert {paths.root for paths in store.find_all(str(tmp_path / "runs/log/*"))} == made
    with pytest.raises(StoreError, match="no run matches"):
        store.find_all("none/*")


def test_an_empty_store_says_what_to_do(tmp_path: Path) -> None:
    assert Store(tmp_path / "nowhere").runs() == []
    with pytest.raises(StoreError, match="start one with `logquake run`"):
        Store(tmp_path / "nowhere").find("latest")


def test_a_store_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match="is a file, not a folder; choose another folder"):
        Store(tmp_path / "runs").check_usable()
    with pytest.raises(StoreError, match="a part of the path is a file"):
        Store(tmp_path / "runs" / "below").check_usable()


def test_a_store_without_permission_is_refused() -> None:
    # Not even root may make a folder in /proc.
    with pytest.raises(StoreError, match=r"/proc/runs cannot be used: .+"):
        Store(Path("/proc/runs")).check_usable()


@needs("/dev/full")
def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fdopen

    def full(handle: int, mode: str) -> object:
        os.close(handle)
        return real(os.open("/dev/full", os.O_WRONLY), mode)

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(StoreError, match="the disk is full; free some space"):
        write_atomically(tmp_path / "verdict.json", "x" * 100_000)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "a" / "page.html"
    write_atomically(target, "old")
    write_atomically(target, "new")
    assert target.read_text(encoding="utf-8") == "new"
    assert list(target.parent.iterdir()) == [target]


def test_34_a_folder_that_no_setting_of_a_broker_can_name_is_refused(tmp_path: Path) -> None:
    store = Store(Path(os.fsdecode(os.fsencode(tmp_path) + b"/st\xffore")))
    with pytest.raises(StoreError, match=r"/st\\xffore' is not UTF-8 text.*--store"):
        store.check_usable()
    assert store.runs() == []
    assert not store.root.exists()
