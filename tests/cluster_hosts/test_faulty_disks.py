"""File systems below nodes' data: what they break, what they count, and that nothing is left.

What a node sees is asked for by programs of their own in its mount namespace; what lies below, by
the folder itself.
"""

import errno
import fcntl
import mmap
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.hosts import examine
from cluster.hosts.audit import mount_points
from cluster.hosts.choose import make_hosts
from cluster.hosts.faulty_disks import FaultyProcesses
from cluster.protocol import (
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
    assert counts.keys() == {f"{kind} {request_}"}
    assert counts[f"{kind} {request_}"] > 0
    assert _own(request_, data) == (errno.EIO if error else 0)
    assert sum(hosts.disk_counts("n1").values()) > sum(counts.values())
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
    assert {*hosts.disk_counts("n1")} == {"late read", "late write", "late fsync", "refused fsync"}
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
    hosts.mend_disk("n1")


@needs("root")
def test_one_that_ends_by_itself_is_told(hosted: Hosted) -> None:
    hosts, below, _ = hosted
    hosts.fetch("n1")
    assert not hosts.disk_is_gone("n1")
    assert not hosts.disk_is_gone("n2")
    os.kill(hosts.served["n1"][0].pid, signal.SIGKILL)
    wait_until(lambda: hosts.disk_is_gone("n1"), timeout_s=10, what="its end")
    hosts.fetch("n1")
    with pytest.raises(ClusterError, match="n1 has no file system of its own below its data"):
        hosts.try_requests("n1")
    with pytest.raises(ClusterError, match="n1 does not answer"):
        hosts.mend_disk("n1")
    assert (below / SEGMENT).stat().st_size == 100  # What was written is there.


@needs("root")
def test_a_node_without_one_and_an_order_that_nobody_knows_are_refused(hosted: Hosted) -> None:
    hosts, _, _ = hosted
    for deed in (hosts.mend_disk, hosts.quicken_disk, hosts.disk_counts, hosts.try_requests):
        with pytest.raises(ClusterError, match="n2 has no file system of its own below its data"):
            deed("n2")
    with pytest.raises(ClusterError, match="nobody knows how to dance"):
        hosts._order("n1", {"do": "dance"})
    with pytest.raises(ClusterError, match="there is no node n9"):
        hosts.provide("n9", [])


@needs("root")
def test_one_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program.py"
    program.write_text("raise SystemExit('libfuse is not for today')")
    monkeypatch.setattr("cluster.hosts.faulty_disks.PROGRAM", program)
    refused = pytest.raises(ClusterError, match="did not start: libfuse is not for today")
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


def test_others_than_root_are_told_whose_the_device_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(examine, "FUSE", f"{tmp_path}/fuse")
    finding = examine.faulty_disk_trial.__wrapped__()
    assert not finding.works
    assert finding.detail == f"there is no {tmp_path}/fuse"
    assert finding.remedy.startswith("type as root: modprobe fuse; in a container")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    whose = examine._refused("/dev/fuse", PermissionError(13, "no"), examine.OPEN_FUSE, "")
    assert whose[0].startswith("/dev/fuse belongs to uid 0, mode 0")
    assert whose[1].startswith("run as root, or have udev let every user open /dev/fuse")
