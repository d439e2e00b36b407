"""Mistakes of a file system below data: they are counted, and errors of what lies below are not."""

import errno
import os
import socket
import threading
from pathlib import Path

import pytest

from cluster.hosts import faulty_disk
from cluster.hosts.faulty_disk import BROKEN, Guarded, Orders
from cluster.hosts.through import Faults, Through


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    return Guarded(Through(os.open(tmp_path, os.O_RDONLY), Faults()))


def test_a_mistake_is_counted_and_an_error_of_the_disk_is_none(guarded: Guarded) -> None:
    with pytest.raises(FileNotFoundError):
        guarded.getattr("/nothing")
    assert guarded.told()[BROKEN] == {}
    for _ in range(2):
        with pytest.raises(AttributeError):
            guarded.mkdir(None, 0o755)
    with pytest.raises(OSError, match="Bad file descriptor"):
        guarded.fsync("/nothing", 0, 1 << 20)
    (mistake, count), (bad, once) = guarded.told()[BROKEN].items()
    assert mistake.startswith("mkdir: AttributeError")
    assert bad.startswith(f"fsync: OSError({errno.EBADF}")
    assert (count, once) == (2, 1)
    assert guarded.use_ns is True
    assert not hasattr(guarded, "setxattr")  # mfusepy asks, and leaves such callbacks out.


def test_a_read_only_disk_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    through = Through(os.open(tmp_path, os.O_RDONLY), Faults())
    (tmp_path / "file").touch()
    assert through.access("/file", os.W_OK) == 0
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    for flag, number in ((0, errno.EACCES), (os.ST_RDONLY, errno.EROFS)):
        monkeypatch.setattr(os, "fstatvfs", lambda _, flag=flag: _Flag(flag))
        with pytest.raises(OSError, match=os.strerror(number)):
            through.access("/file", os.W_OK)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_want_of_handles_or_memory_is_its_own(
    guarded: Guarded, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match=os.strerror(number)):
        guarded.open("/file", os.O_RDONLY)
    assert [*guarded.told()[BROKEN]] == [f"open: OSError({number}, {os.strerror(number)!r})"]


def test_who_connects_and_says_nothing_holds_no_other_order_up(
    tmp_path: Path, guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faulty_disk, "SILENT_S", 0.1)
    faults, at = Faults(), f"{tmp_path}/orders"
    through = Through(os.open(tmp_path, os.O_RDONLY), faults)
    listener = socket.socket(socket.AF_UNIX)  # Its thread has it for good, as in the program.
    listener.bind(at)
    listener.listen()
    orders = Orders(listener, faults, through, guarded)
    threading.Thread(target=orders.serve, daemon=True).start()
    with connected(at) as silent, connected(at) as half, connected(at) as other:
        half.sendall(b'{"do": ')
        other.sendall(b'{"do": "tell"}\n')
        assert b'"ready"' in other.makefile("rb").readline()
        assert b"timed out" in silent.makefile("rb").readline()


def connected(at: str) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(10)
    line.connect(at)
    return line


class _Flag:
    def __init__(self, flag: int) -> None:
        self.f_flag = flag
