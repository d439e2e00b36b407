"""The agent's functions that list, reset and open TCP connections of the machine.

The agent runs this file, which is in the agent's folder. The file needs the standard library only.
If you run it as a program, it tests whether the kernel can reset connections. If the kernel cannot
do so, the program prints the reason and ends with exit code 1.

The kernel itself does the reset (SOCK_DESTROY, man 7 sock_diag, in kernels built with
CONFIG_INET_DIAG_DESTROY). As after an ABORT call (RFC 9293, section 3.10.5), the socket is closed.
The other end gets an RST and closes as well. A reset needs CAP_NET_ADMIN.
"""

import errno
import os
import selectors
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

Order = dict[str, Any]
"""A JSON object: the request's name (`do`), and the values that the request needs."""

ESTABLISHED, LISTENS = "01", "0A"
"""State codes in `/proc/net/tcp` (man 5 proc)."""
MAPPED = bytes(10) + b"\xff\xff"
"""The first bytes of an IPv6 address that contains an IPv4 address (RFC 4291, section 2.5.5.2)."""
MARK = "LOGQUAKE_RUN"
"""Environment variable of all processes that a run starts on a shared machine."""
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, SOCK_DESTROY = 4, 20, 21
HEAD = struct.Struct("=IHHII")
"""Header of a netlink message (`struct nlmsghdr`, man 7 netlink): length, type, flags,
two numbers."""
NLMSG_ERROR, REQUEST, ACK = 2, 0x1, 0x4
ANY_STATE, ANY_COOKIE = 0xFFFFFFFF, b"\xff" * 8
STATE_AT, COOKIE_AT = 1, 44
"""The byte offsets of the fields in the kernel's response (`struct inet_diag_msg`)."""
LIMIT_S = 1.0
CONNECT_LIMIT_S = 0.3
"""Seconds for a handshake on a busy machine. A lost SYN would be sent again only after a second."""


def listed(_order: Order) -> Order:
    """Return the listening ports and the established connections.

    If a machine also has foreign processes, only the sockets of the run's processes are returned.
    So connections that no process has accepted yet are missing in the result. Each connection has
    the addresses and ports of both ends, and its inode. It also has the number of unacknowledged
    bytes, and how often these bytes were sent again.
    """
    rows = [*_rows()]
    mine = _inodes_of_run()  # After the rows: sockets closed meanwhile do not count.
    ours = [row for row in rows if mine is None or row[5] in mine]
    return {
        "listening": sorted({row[2] for row in ours if row[0] == LISTENS}),
        "established": [row[1:] for row in ours if row[0] == ESTABLISHED],
    }


def _rows() -> "Iterator[tuple[Any, ...]]":
    for name in ("tcp", "tcp6"):
        lines: list[str] = []
        with suppress(FileNotFoundError):  # The kernel may lack IPv6.
            lines = Path("/proc/net", name).read_text(encoding="ascii").splitlines()[1:]
        for line in lines:
            fields = line.split()
            ours, others = _end(fields[1]), _end(fields[2])
            if ours and others:
                waits = int(fields[4].partition(":")[0], 16)
                yield (fields[3], *ours, *others, int(fields[9]), waits, int(fields[6], 16))


def _end(text: str) -> "tuple[str, int] | None":
    """Return an end's IPv4 address and port; None if the address is IPv6 only."""
    words, _, port = text.partition(":")
    whole = b"".join(
        struct.pack("=I", int(words[at : at + 8], 16)) for at in range(0, len(words), 8)
    )
    if len(whole) == len(MAPPED) + 4 and whole[: len(MAPPED)] != MAPPED and any(whole):
        return None
    return socket.inet_ntoa(whole[-4:]), int(port, 16)


def _inodes_of_run() -> "set[int] | None":
    """Return the inodes of the run's sockets on a shared machine.

    The result is None if the whole machine belongs to the run.
    """
    if not (run := os.environ.get(MARK)):
        return None
    mark, found = f"{MARK}={run}".encode(), set[int]()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # The process has ended, or is another user's.
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found |= set(_sockets_of(process))
    return found


def _sockets_of(process: Path) -> "Iterator[int]":
    for link in (process / "fd").iterdir():
        with suppress(OSError):
            kind, _, inode = str(link.readlink()).partition(":")
            if kind == "socket":
                yield int(inode.strip("[]"))


def reset(order: Order) -> Order:
    """Let the kernel reset sockets; return the errno (man 3 errno) of each socket, or 0.

    Args:
        order: `sockets`: for each socket, the local address and port, then the remote address and
            port.
    """
    with closing(socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG)) as kernel:
        kernel.settimeout(LIMIT_S)
        return {"errors": [_destroyed(kernel, each) for each in order["sockets"]]}


def _destroyed(kernel: socket.socket, ends: "tuple[str, int, str, int]") -> int:
    """Reset an established socket; return the errno, or 0.

    The request contains the cookie (the kernel's id) of the established socket. Without the cookie,
    if the connection no longer exists, the kernel would close the listening socket instead.
    """
    found = _asked(kernel, SOCK_DIAG_BY_FAMILY, ends, ANY_COOKIE)
    if isinstance(found, int):
        return found
    if found[STATE_AT] != int(ESTABLISHED, 16):
        return errno.ENOENT
    answer = _asked(kernel, SOCK_DESTROY, ends, found[COOKIE_AT : COOKIE_AT + len(ANY_COOKIE)])
    return answer if isinstance(answer, int) else 0


def _asked(
    kernel: socket.socket, kind: int, ends: "tuple[str, int, str, int]", cookie: bytes
) -> "bytes | int":
    """Send the kernel a request about one socket (`struct inet_diag_req_v2`).

    Return the kernel's response, or an errno.
    """
    address, port, other, at = ends
    what = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, ANY_STATE)
    what += struct.pack("!HH", port, at)
    what += socket.inet_aton(address) + bytes(12) + socket.inet_aton(other) + bytes(12)
    what += struct.pack("=I", 0) + cookie
    flags = REQUEST | (ACK if kind == SOCK_DESTROY else 0)
    kernel.send(HEAD.pack(HEAD.size + len(what), kind, flags, 0, 0) + what)
    answer = kernel.recv(1 << 16)
    _, answered, *_ = HEAD.unpack_from(answer)
    if answered == NLMSG_ERROR:
        return -int(struct.unpack_from("=i", answer, HEAD.size)[0])
    return answer[HEAD.size :]


def connect(order: Order) -> Order:
    """Open a new connection to each address and port of `to`; return whether each one opened.

    All connections together get only `CONNECT_LIMIT_S` seconds, because the agent does nothing else
    while it waits.
    """
    with ExitStack() as opened, selectors.DefaultSelector() as waiting:
        errors: list[int] = []
        for number, (address, port) in enumerate(order["to"]):
            each = opened.enter_context(closing(socket.socket()))
            each.settimeout(0)
            errors.append(each.connect_ex((address, port)))
            if errors[-1] == errno.EINPROGRESS:
                waiting.register(each, selectors.EVENT_WRITE, (number, each))
        deadline_s = _now_s() + CONNECT_LIMIT_S
        while waiting.get_map() and (left_s := deadline_s - _now_s()) > 0:
            for key, _ in waiting.select(left_s):
                number, each = key.data
                waiting.unregister(each)
                errors[number] = each.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return {"opened": [not error for error in errors]}


def _now_s() -> float:
    return time.monotonic()  # noqa: TID251 - standard library only


def trial() -> None:
    """Reset one end of a local connection; raise `OSError` if the other end does not notice."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        at = server.getsockname()
        with closing(socket.create_connection(at)) as client:
            ours = client.getsockname()
            other, _ = server.accept()
            with closing(other):
                (error,) = reset({"sockets": [[*ours, *at]]})["errors"]
                if error:
                    raise OSError(error, os.strerror(error))
                other.settimeout(LIMIT_S)
                with suppress(ConnectionResetError):
                    other.recv(1)
                    raise OSError("after a socket was destroyed, its other end received no reset")


DEEDS = {"list": listed, "reset": reset, "connect": connect}
"""The functions that the agent can call, by their names in a request."""

if __name__ == "__main__":
    try:
        trial()
    except OSError as failed:
        sys.exit(f"{failed.strerror or failed}")
