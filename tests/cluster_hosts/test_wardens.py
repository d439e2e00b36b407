"""A warden without ssh: what it does with what it hears, and that it undoes all in the end."""

import errno
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.hosts import agent
from cluster.hosts.ssh import undoing
from cluster.hosts.ssh.undoing import MARK, WARDEN, Order, _remove_folder, undo
from cluster.hosts.ssh.warden import make_folder
from results.record.clock import wait_until

REPOSITORY = Path(__file__).parents[2]
KILL_ONE_THAT_ENDS = """
import os
if (pid := os.fork()) == 0:
    os._exit(0)
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
print(os.access(f"/proc/{pid}/environ", os.R_OK), repr(_kill(pid, {"id": "1"})))
"""
START = "import json, sys; from cluster.hosts.ssh.warden import main; main(json.load(sys.stdin))"


@pytest.fixture
def order(tmp_path: Path) -> Iterator[Order]:
    """What a warden that runs was told; it and all of its is gone afterwards."""
    folder = tmp_path / "runs" / "1"
    told: Order = {
        "do": "keep",
        "folder": str(folder),
        "id": f"test-{os.getpid()}",
        "table": "none",
    }
    told |= {"nft": ["true"], "umount": ["true"], "ttl_s": 60, "listen": "127.0.0.1"}
    told |= {"programs": {"agent.py": Path(agent.__file__).read_text()}}
    done = subprocess.run(
        [sys.executable, "-c", START],
        input=json.dumps(told),
        env={**os.environ, MARK: told["id"], WARDEN: "1", "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "error" not in json.loads(done.stdout), done.stdout
    yield told
    undo(told)
    assert not folder.exists()


@contextmanager
def line_to(order: Order) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        # The path of the socket itself may be too long (man 7 unix).
        folder = os.open(order["folder"], os.O_PATH)
        line.connect(f"/proc/self/fd/{folder}/line")
        os.close(folder)
        line.settimeout(20)
        yield line


def answer(line: socket.socket) -> dict[str, object]:
    with line.makefile("rb") as heard:
        return dict(json.loads(heard.readline()))


def test_a_line_that_was_cut_off_ends_the_connection_and_not_the_warden(order: Order) -> None:
    with line_to(order) as line:
        line.sendall(b'{"do": "ping", "i\n')
        assert line.recv(1) == b""
    with line_to(order) as line:
        line.sendall(b'{"do": "ping", "id": 1}\n')
        assert answer(line)["id"] == 1


def test_a_warden_that_fails_undoes_all_the_same(order: Order) -> None:
    with line_to(order) as line:
        line.sendall(b"[]\n")  # No such thing is ever sent.
        wait_until(lambda: not Path(order["folder"]).exists(), timeout_s=20, what="its end")


def test_a_process_that_ends_meanwhile_is_no_failure_for_an_ordinary_user() -> None:
    """It has no memory any more: its files in /proc are root's then, until it is gone."""
    sources = Path(undoing.__file__).read_text()
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    become = drop if os.geteuid() == 0 else []
    done = subprocess.run(
        [*become, "/usr/bin/python3", "-I", "-S", "-"],
        input=sources + KILL_ONE_THAT_ENDS,
        capture_output=True,
        text=True,
        cwd="/",
        check=True,
    )
    assert done.stdout == "False ''\n"


def test_runs_that_come_and_go_together_make_and_remove_the_folder_of_runs(tmp_path: Path) -> None:
    base = tmp_path / "runs"

    def come_and_go(number: int) -> None:
        for _ in range(150):
            folder = base / str(number)
            make_folder(folder)
            _remove_folder({"folder": str(folder)})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(come_and_go, range(4)))
    assert not base.exists()


def test_a_run_that_came_and_went_while_another_ended_leaves_no_folder_of_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It saw no mark, for that was away for a moment, and so did not remove the folder."""
    base, rmdir = tmp_path / "runs", Path.rmdir
    make_folder(base / "1")
    refusals = [OSError(errno.ENOTEMPTY, "there is another run")]

    def refused_at_first(path: Path) -> None:
        if refusals:
            raise refusals.pop()
        rmdir(path)

    monkeypatch.setattr(Path, "rmdir", refused_at_first)
    _remove_folder({"folder": str(base / "1")})
    assert not refusals
    assert not base.exists()


def test_a_folder_of_runs_that_is_somebody_s_own_stays(tmp_path: Path) -> None:
    base = tmp_path / "runs"
    base.mkdir()
    make_folder(base / "1")
    _remove_folder({"folder": str(base / "1")})
    assert base.exists()


def test_a_folder_that_cannot_be_removed_is_told_and_costs_no_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "1"
    folder.mkdir()
    attempts: list[Path] = []

    def refused(path: Path, *, ignore_errors: bool) -> None:
        attempts.append(path)
        if not ignore_errors:
            raise OSError("it is in use")

    monkeypatch.setattr(shutil, "rmtree", refused)
    monkeypatch.setattr(undoing, "GONE_TIMEOUT_S", 0.5)
    told = {"folder": str(folder), "id": "none", "table": "none", "nft": ["true"], "umount": []}
    assert undo(told)["failed"] == ["it is in use"]
    assert len(attempts) <= 0.5 / undoing.POLL_S + 1
