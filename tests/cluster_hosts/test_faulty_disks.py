"""File systems below nodes' data: what they break, what they count, and that nothing is left.

What a node sees is asked for by programs of their own in its mount namespace; what lies below, by
the folder itself.
"""

import errno
import fcntl
import mmap
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from cluster.hosts.audit import mount_points
from cluster.hosts.choose import make_hosts
from cluster.hosts.faulty_disk import TRIAL
from cluster.hosts.faulty_disks import PROGRAM, FaultyProcesses, own_mounts
from cluster.protocol import (
    DISK_REQUESTS,
    CanFaultDisk,
    CanSlowDisk,
    ClusterError,
    HasFiles,
)
from results.record.clock import stopwatch_s, wait_until
from results.record.paths import RunPaths
from tests.machine import needs

PAGE = 4096
SEGMENT = Path("t-0", "00000000000000000000.log")
PAGES = {"read": "", "write": "", "fsync": ""}


@contextmanager
def served(folder: Path) -> Iterator[tuple[FaultyProcesses, Path, Path]]:
    """Yield hosts whose n1 has a file system, its data as they lie below, and as n1 sees them."""
    paths = RunPaths(folder)
    hosts = make_hosts("process", ["n1", "n2"], paths.processes, faulty_disks=True)
    assert isinstance(hosts, FaultyProcesses)
    assert isinstance(hosts, CanFaultDisk)
    assert isinstance(hosts, CanSlowDisk)
    assert isinstance(hosts, HasFiles)
    below = paths.node("n1").absolute() / "data"
    (below / SEGMENT).parent.mkdir(parents=True)
    (below / SEGMENT).write_bytes(b"x" * 100)
    try:
        hosts.up()
        hosts.provide("n1", [])
        root = Path(f"/proc/{hosts.machine('n1').process.pid}/root")
        yield hosts, below, root / below.relative_to("/")
    finally:
        hosts.down()


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[tuple[FaultyProcesses, Path, Path]]:
    with served(tmp_path) as made:
        yield made


Hosted = tuple[FaultyProcesses, Path, Path]
pytestmark = [needs("fuse")]


@needs("root")
def test_what_a_node_does_to_its_files_is_done_below(hosted: Hosted) -> None:
    _, below, data = hosted
    assert data.stat().st_dev != below.stat().st_dev
    with (data / "index").open("w+b") as file:
        file.truncate(8 * PAGE)
        with mmap.mmap(file.fileno(), 0) as mapped:  # As brokers map their index files.
            mapped[PAGE : PAGE + 5] = b"wrote"
            mapped.flush()
    assert (below / "index").read_bytes()[PAGE : PAGE + 5] == b"wrote"
    with (data / ".lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (data / SEGMENT).open("ab") as segment:
        segment.write(b"more")
    assert (below / SEGMENT).read_bytes() == b"x" * 100 + b"more"
    (data / "new").mkdir()
    (data / "new" / "a").write_text("a")
    (data / "new" / "a").rename(data / "new" / "b")
    opened = (data / "new" / "b").open()
    (data / "new" / "b").unlink()
    assert opened.read() == "a"
    opened.close()
    assert sorted(path.name for path in below.iterdir()) == [".lock", "index", "new", "t-0"]
    (data / "new").rmdir()
    assert os.statvfs(data).f_blocks == os.statvfs(below).f_blocks


@needs("root")
@pytest.mark.parametrize(
    "case",
    [
        ("refused", "write", "EIO", 0),
        ("refused", "fsync", "EIO", PAGE),
        ("refused", "read", "EIO", PAGE),
        ("torn", "write", "EIO", PAGE // 2),
        ("short", "write", "", PAGE // 2),
    ],
)
def test_requests_are_broken_counted_and_right_again(
    hosted: Hosted, case: tuple[str, str, str, int]
) -> None:
    hosts, _, data = hosted
    kind, request_, error, stored = case
    assert hosts.try_requests("n1").errors == PAGES
    hosts.fault_disk("n1", kind, [request_])
    page = hosts.try_requests("n1")
    assert page.errors == {**PAGES, request_: error}
    assert (page.stored, page.written) == (stored, PAGE)
    counts = hosts.disk_counts("n1")
    assert counts.keys() == {f"{kind} probe's {request_}"}, "none of it is the broker's"
    assert _own(request_, data) == (errno.EIO if error else 0)
    assert hosts.disk_counts("n1")[f"{kind} {request_}"] > 0
    for _ in range(2):
        hosts.mend_disk("n1")
    assert hosts.try_requests("n1").errors == PAGES
    assert hosts.try_requests("n1").stored == PAGE
    assert _own(request_, data) == 0


def _own(request: str, data: Path) -> int:
    """Do what a broker does, and return the number of its error."""
    opened = os.open(data / SEGMENT, os.O_RDWR)
    deeds: dict[str, Callable[[], object]] = {
        "read": lambda: os.read(opened, 10),
        "write": lambda: os.pwrite(opened, bytes(10), 100),
        "fsync": lambda: os.fsync(opened),
    }
    try:
        deeds[request]()
    except OSError as refused:
        return refused.errno or 0
    finally:
        os.close(opened)
    return 0


@needs("root")
def test_a_disk_is_late_beside_what_it_breaks_and_holds_nobody_else_up(hosted: Hosted) -> None:
    hosts, _, _ = hosted
    usual_s = hosts.time_flush_s("n1")
    hosts.fault_disk("n1", "refused", ["fsync"])
    hosts.slow_disk("n1", 0.3)
    assert hosts.time_flush_s("n1") >= 3 * 0.3 > usual_s
    late = {"late read", "late write", "late fsync"}
    assert {*hosts.disk_counts("n1")} == {*late, "refused probe's fsync"}
    started_s = stopwatch_s()
    assert hosts.disk_counts("n1")
    assert stopwatch_s() - started_s < 0.3  # Orders are not late.
    hosts.mend_disk("n1")
    assert hosts.time_flush_s("n1") >= 3 * 0.3
    for _ in range(2):
        hosts.quicken_disk("n1")
    assert hosts.time_flush_s("n1") < 3 * 0.3
    assert hosts.try_requests("n1").errors == PAGES


@needs("root")
def test_flushes_of_segments_are_lost_and_no_others(hosted: Hosted) -> None:
    hosts, _, data = hosted
    hosts.fault_disk("n1", "lost", ["fsync"], folders=["t-0"])
    ((path, size),) = hosts.flushed("n1").items()
    assert (f"{path}", size) == (f"data/{SEGMENT}", 100)
    hosts.try_requests("n1")  # Its page is no segment.
    metadata = data / "metadata-0"
    metadata.mkdir()
    for file in (data / SEGMENT, metadata / SEGMENT.name, data / "t-0" / "a.index"):
        with file.open("ab") as opened:
            opened.write(b"more")
            opened.flush()
            os.fsync(opened)
    assert hosts.disk_counts("n1") == {"lost fsync": 1}
    assert (data / SEGMENT).stat().st_size == 104  # Who reads sees it: its power is not gone yet.
    os.truncate(data / SEGMENT, 40)
    assert [*hosts.flushed("n1").values()] == [40]
    hosts.mend_disk("n1")


@needs("root")
def test_one_that_ends_by_itself_is_told(hosted: Hosted) -> None:
    hosts, below, _ = hosted
    hosts.fetch("n1")
    assert hosts.disk_trouble("n1") == ""
    assert hosts.disk_trouble("n2") == ""
    os.kill(hosts.served["n1"][0].pid, signal.SIGKILL)
    wait_until(lambda: hosts.disk_trouble("n1") == "has ended", timeout_s=10, what="its end")
    hosts.fetch("n1")
    with pytest.raises(ClusterError, match="is not, or no longer, mounted below the data of n1"):
        hosts.try_requests("n1")
    with pytest.raises(ClusterError, match="n1 does not answer"):
        hosts.mend_disk("n1")
    assert (below / SEGMENT).stat().st_size == 100  # What was written is there.


@needs("root")
def test_a_node_without_one_and_an_order_that_nobody_knows_are_refused(hosted: Hosted) -> None:
    hosts, _, _ = hosted
    for deed in (hosts.mend_disk, hosts.quicken_disk, hosts.disk_counts, hosts.try_requests):
        with pytest.raises(
            ClusterError, match=r"is not(, or no longer,)? mounted below the data of n2"
        ):
            deed("n2")
    with pytest.raises(ClusterError, match="dance is an unknown request"):
        hosts._order("n1", {"do": "dance"})
    with pytest.raises(ClusterError, match="there is no node n9"):
        hosts.provide("n9", [])


@needs("root")
@pytest.mark.parametrize(
    ("ends", "why"),
    [
        ("raise SystemExit('libfuse is not for today')", "libfuse is not for today"),
        ("raise ValueError('a bug')", "ValueError: a bug"),
        ("raise SystemExit(1)", "the program printed nothing"),
    ],
)
def test_one_that_does_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str, why: str
) -> None:
    (tmp_path / "disk-n2.log").write_text("of another node\n")
    program = tmp_path / "program.py"
    program.write_text(ends)
    monkeypatch.setattr("cluster.hosts.faulty_disks.PROGRAM", program)
    refused = pytest.raises(ClusterError, match=f"data of n1 did not start: {why}$")
    with refused, served(tmp_path):
        pass


@needs("root")
def test_nothing_is_mounted_outside_and_nothing_is_left(tmp_path: Path) -> None:
    with served(tmp_path) as (hosts, below, data):
        process = hosts.served["n1"][0]
        assert f"{below}" in mount_points(Path(f"/proc/{process.pid}/mountinfo").read_bytes())
        assert f"{below}" not in mount_points(Path("/proc/self/mountinfo").read_bytes())
        (data / "kept").write_text("kept")
    assert hosts.state_of(process) is None
    assert (below / "kept").read_text() == "kept"
    assert not hosts.traces()


_MAPS = """
import mmap, sys
with open(sys.argv[1], "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
    mapped[:5] = sys.argv[2].encode()
    if sys.argv[3:]:
        mapped.flush()
"""
"""As a broker does with an index: without `flush`, it ends with a page that nobody wrote back."""


@needs("root")
def test_who_starts_on_a_mended_disk_is_told_of_no_earlier_error(hosted: Hosted) -> None:
    hosts, below, data = hosted
    index = data / "t-0" / "0.index"
    index.write_bytes(bytes(PAGE))

    def map_it(*words: str) -> int:
        return subprocess.run(
            [sys.executable, "-c", _MAPS, f"{index}", *words], capture_output=True, check=False
        ).returncode

    hosts.fault_disk("n1", "refused", ["write"])
    assert map_it("lost!") == 0  # Who ended is told of nothing.
    assert hosts.disk_counts("n1")["refused write"] > 0
    assert hosts.mend_disk("n1") == 2
    assert map_it("after", "flush") == 0
    assert (below / "t-0" / "0.index").read_bytes()[:5] == b"after"
    assert hosts.disk_trouble("n1") == ""


@needs("root")
@pytest.mark.parametrize("way", ["unlinked", "renamed over"])
@pytest.mark.parametrize(
    ("fault", "request_"),
    [("", "write"), ("torn", "write"), ("short", "write"), ("refused", "fsync"), ("lost", "fsync")],
)
def test_an_open_file_without_a_name_is_one_as_on_any_disk(
    hosted: Hosted, way: str, fault: str, request_: str
) -> None:
    hosts, below, data = hosted
    opened = os.open(data / SEGMENT, os.O_RDWR)
    other = data / "t-0" / "other"
    try:
        if way == "unlinked":
            (data / SEGMENT).unlink()
            assert [*(below / "t-0").iterdir()] == []
        else:
            other.write_bytes(b"new")
            other.rename(data / SEGMENT)
            assert (below / SEGMENT).read_bytes() == b"new"
        if fault:
            hosts.fault_disk("n1", fault, [request_], folders=["t-0"] if fault == "lost" else [])
        eio = pytest.raises(OSError, match="Input/output error")
        with eio if fault == "torn" else nullcontext():
            assert os.pwrite(opened, b"more", 100) == (2 if fault == "short" else 4)
        with eio if fault == "refused" else nullcontext():
            os.fsync(opened)
        assert os.fstat(opened).st_size == (102 if fault in {"torn", "short"} else 104)
        os.ftruncate(opened, 50)
        assert os.fstat(opened).st_size == 50
        os.utime(opened, (1, 2))
        os.fchmod(opened, 0o600)
        assert os.fstat(opened).st_mode & 0o777 == 0o600
        assert os.pread(opened, 100, 0) == b"x" * 50
        assert hosts.disk_counts("n1").get("lost fsync", 0) == (fault == "lost")
    finally:
        os.close(opened)
    hosts.mend_disk("n1")
    assert hosts.disk_trouble("n1") == ""
    left = [] if way == "unlinked" else [SEGMENT.name]
    assert [path.name for path in (below / "t-0").iterdir()] == left
    (data / SEGMENT).unlink(missing_ok=True)
    (data / "t-0").rmdir()


@needs("root")
def test_it_has_as_many_handles_as_it_may(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with served(tmp_path) as (hosts, _, data):
            pid = hosts.served["n1"][0].pid
            assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (hard, hard)
            code = (
                "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400));"
                "opened = [open(sys.argv[1]) for _ in range(300)]"
            )
            subprocess.run([sys.executable, "-c", code, f"{data / SEGMENT}"], check=True)
            assert hosts.disk_trouble("n1") == ""
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@needs("root")
def test_two_faults_try_one_disk_at_a_time(hosted: Hosted) -> None:
    hosts, _, _ = hosted
    hosts.slow_disk("n1", 0.05)
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(hosts.try_requests, ["n1"] * 8))
    assert [page.errors for page in told] == [dict.fromkeys(DISK_REQUESTS, "")] * 8
    assert [page.stored for page in told] == [PAGE] * 8


@needs("root")
def test_an_open_file_without_a_name_stays_one_when_its_folder_is_renamed(hosted: Hosted) -> None:
    hosts, below, data = hosted
    opened = os.open(data / SEGMENT, os.O_RDWR)
    try:
        (data / SEGMENT).unlink()
        (data / "t-0").rename(data / "t-0.abc-delete")  # As Kafka does with a topic that goes.
        assert os.fstat(opened).st_size == 100
        os.ftruncate(opened, 50)
        assert os.pread(opened, 100, 0) == b"x" * 50
        os.fchmod(opened, 0o600)
        hosts.fault_disk("n1", "refused", ["write"])
        with pytest.raises(OSError, match="Input/output error"):
            os.pwrite(opened, b"more", 0)
        hosts.mend_disk("n1")
    finally:
        os.close(opened)
    assert [*below.glob("t-0*/*")] == []
    (data / "t-0.abc-delete").rmdir()
    assert hosts.disk_trouble("n1") == ""


@needs("root")
def test_a_file_that_is_renamed_over_while_it_is_open_is_always_there(hosted: Hosted) -> None:
    hosts, _, data = hosted
    checkpoint, over = data / "checkpoint", threading.Event()
    checkpoint.write_text("0")

    def read() -> int:
        reads = 0
        while not over.is_set():
            try:
                reads += bool(checkpoint.read_text())
            except OSError as refused:
                if refused.errno != errno.ESTALE:  # It was renamed over at both of two looks.
                    raise
        return reads

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        try:
            for number in range(100):
                with checkpoint.open():
                    (data / "next").write_text(f"{number}")
                    (data / "next").rename(checkpoint)
        finally:
            over.set()
        assert all(reader.result(timeout=10) for reader in readers)
    assert hosts.disk_trouble("n1") == ""


@needs("root")
def test_what_a_broker_sees_of_files_is_what_it_asked_for(hosted: Hosted) -> None:
    _, below, data = hosted
    old = os.umask(0o027)
    try:
        (data / "made").touch(0o666)
    finally:
        os.umask(old)
    assert (below / "made").stat().st_mode & 0o777 == 0o640
    os.utime(data / "made", ns=(5_000_000_000, 7_000_000_000))
    subprocess.run(["touch", "-a", f"{data}/made"], check=True)  # UTIME_NOW, UTIME_OMIT
    found = (below / "made").stat()
    assert found.st_mtime_ns == 7_000_000_000
    assert found.st_atime_ns > 7_000_000_000


@needs("root")
def test_one_that_stands_still_or_is_not_mounted_any_more_is_told(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts, _, data = hosted
    monkeypatch.setattr("cluster.hosts.faulty_disks.ANSWER_S", 0.5)
    assert hosts.disk_trouble("n1") == ""
    pid = hosts.served["n1"][0].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        silent = "does not answer"  # Its threads stop one by one, soon after the signal.
        wait_until(lambda: hosts.disk_trouble("n1") == silent, timeout_s=10, what="its silence")
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not hosts.disk_trouble("n1"), timeout_s=10, what="its answer")
    hosts.machine("n1").run(["umount", "--lazy", f"{data}".partition("/root")[2]])
    assert hosts.disk_trouble("n1") in {"is no longer mounted", "has ended"}


@needs("root")
def test_a_late_request_is_not_broken_after_the_mend(hosted: Hosted) -> None:
    hosts, _, data = hosted
    hosts.slow_disk("n1", 1.0)
    hosts.fault_disk("n1", "refused", ["write"])
    with ThreadPoolExecutor(1) as pool:
        wrote = pool.submit(_own, "write", data)
        wait_until(lambda: "late write" in hosts.disk_counts("n1"), timeout_s=5, what="it")
        hosts._order("n1", {"do": "clear", "late": False})
        assert wrote.result(timeout=10) == 0
    hosts.quicken_disk("n1")


@needs("root")
def test_a_mistake_of_its_own_and_a_request_without_end_are_told(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts, _, data = hosted
    opened = os.open(data / SEGMENT, os.O_RDWR)
    hosts.slow_disk("n1", 1.0)
    monkeypatch.setattr("cluster.hosts.faulty_disks.HANGS_S", 0.2)
    with ThreadPoolExecutor(1) as pool:
        wrote = pool.submit(os.pwrite, opened, b"late", 0)
        wait_until(lambda: hosts.disk_trouble("n1"), timeout_s=5, what="it", interval_s=0.05)
        assert hosts.disk_trouble("n1").startswith("hangs (write for ")
        assert wrote.result(timeout=10) == 4
    hosts.quicken_disk("n1")
    assert hosts.disk_trouble("n1") == ""
    (data / SEGMENT).unlink()
    (data / "t-0").rmdir()
    with pytest.raises(OSError, match=r"Invalid argument|Stale file handle"):
        os.ftruncate(opened, 1)  # mfusepy gives neither a path nor a handle.
    os.close(opened)
    assert hosts.disk_trouble("n1").startswith("had errors of its own (1 times truncate: ")


_HANGS = """
import os, pathlib, signal
fuse_version_major, fuse_version_minor = 3, 0
def FUSE(*_, **__):
    pathlib.Path(os.environ["PID_FILE"]).write_text(f"{os.getpid()}\\n")
    signal.pause()
"""


@needs("root")
def test_a_trial_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "mfusepy.py").write_text(_HANGS)
    pid_file, scratch = tmp_path / "pid", tmp_path / "scratch"
    scratch.mkdir()
    argv = [*own_mounts(), sys.executable, "-P", f"{PROGRAM}", TRIAL, f"{scratch}"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}", "PID_FILE": f"{pid_file}"}
    with subprocess.Popen(argv, env=environment, stderr=subprocess.DEVNULL) as trial:
        wait_until(
            lambda: pid_file.exists() and pid_file.read_text().endswith("\n"),
            timeout_s=10,
            what="the trial's file system",
        )
        pid = int(pid_file.read_text())
        assert pid != trial.pid
        trial.kill()
    stat = Path(f"/proc/{pid}/stat")
    wait_until(
        lambda: not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX",
        timeout_s=10,
        what="the end of what the trial had started",
    )
