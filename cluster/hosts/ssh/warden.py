"""A program on an ssh host that undoes a run on the host if the harness is silent too long.

The warden is the first program of the run on the host. It is detached from the ssh session. The
warden creates the run's folder, starts the agent, and passes messages between the harness and the
agent. Each line from the harness, even an empty one, renews the run's lease. The warden answers
with the free bytes on the disk.

The lease runs out if the harness is dead, the harness's machine is down, or the network fails. The
warden then kills all processes with the run's mark, deletes the run's nft table, removes the run's
folder, and ends.

A lost connection changes nothing on the host. The agent and its processes continue. Every fault
stays in force until the lease runs out, or until the harness, connected again, clears the fault.
When the harness connects again, it repeats its last request with the same number, so the agent does
not execute the request twice.

    harness == ssh == talk -- socket -- warden -- agent -- brokers

The code needs the standard library only. The harness sends the host's Python an order as JSON, the
text of this module, and the text of the two modules that this module imports. So the host needs no
installation.
"""

import contextlib
import errno
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from pathlib import Path

from cluster.hosts.ssh.errands import LINE, examine, files, remove, try_program
from cluster.hosts.ssh.undoing import OURS, WARDEN, Order, now_s, traces, undo

READ_BYTES = 1 << 16
SEND_TIMEOUT_S = 5.0
AGENT_END_S = 5.0
BASE_ATTEMPTS = 50
FIRST_LEASE_S = 30.0
"""The shortest lease, in seconds, before the first call: a busy host starts slowly."""
SYSTEM_PROGRAMS = ("/usr/sbin", "/sbin")


def main(order: Order) -> None:
    """Execute the order's request; print the answer as a JSON object."""
    # The folder of nft is not in every ordinary user's PATH.
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_PROGRAMS])
    if "folder" in order:
        order["folder"] = str(Path(order["folder"]).expanduser())
    deeds = {"keep": keep, "undo": undo, "traces": traces, "examine": examine}
    deeds |= {"files": files, "remove": remove, "try_program": try_program}
    try:
        answer = deeds[order["do"]](order)
    except OSError as failed:
        answer = {"error": str(failed)}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def keep(order: Order) -> Order:
    """Start the agent and a warden that outlives this process; return their addresses.

    Args:
        order: `folder` (to be created), `id`, `table`, `nft` (the command line of nft), `umount`,
            `ttl_s`, `listen` (address of the agent) and `programs` (text by file name).
    """
    read, write = os.pipe()
    if os.fork():
        os.close(write)
        with os.fdopen(read, "rb") as told:
            said = told.read()
        return (
            dict(json.loads(said)) if said else {"error": "the warden process ended at its start"}
        )
    os.close(read)
    os.setsid()
    if os.fork():
        os._exit(0)  # A process that is not a session leader never gets a terminal.
    _be_warden(order, write)
    os._exit(0)


def _be_warden(order: Order, told: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    warden = Warden(order)
    try:
        warden.prepare()
        answer = {"folder": order["folder"], "pid": os.getpid()}
    except OSError as failed:
        answer = {"error": str(failed)}
        if failed.errno != errno.EEXIST:
            undo(order)
    os.write(told, json.dumps(answer).encode())
    os.close(told)
    if "error" not in answer:
        warden.serve()


class Warden:
    """Passes lines between the harness and the agent; undoes the run when the lease runs out.

    Args:
        order: As for `keep`.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._folder = Path(order["folder"])
        self._ends_s = now_s() + max(FIRST_LEASE_S, order["ttl_s"])
        self._alive = True
        self._selector = selectors.DefaultSelector()
        self._client: socket.socket | None = None
        self._from_client = b""
        self._from_agent = b""
        self._request_id: object = None
        self._answer = b""

    def prepare(self) -> None:
        """Create the run's folder, listen in it, and start the agent."""
        signal.signal(signal.SIGTERM, lambda *_: self._stop())
        signal.signal(signal.SIGHUP, lambda *_: None)
        make_folder(self._folder)
        for name, text in self._order["programs"].items():
            (self._folder / name).write_text(text, encoding="utf-8")
        os.chdir(self._folder)  # The path of a socket may have only 107 bytes (man 7 unix).
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(LINE)
        self._listener.listen()
        os.chdir("/")
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._start_agent()

    def _start_agent(self) -> None:
        self._agent, theirs = socket.socketpair()
        self._agent.settimeout(SEND_TIMEOUT_S)
        program = str(self._folder / "agent.py")
        with theirs, (self._folder / "agents.log").open("ab") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own agent
                [sys.executable, "-I", "-S", program, str(os.getpid()), self._order["listen"]],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=errors,
                env={name: value for name, value in os.environ.items() if name != WARDEN},
                start_new_session=True,
            )
        self._selector.register(self._agent, selectors.EVENT_READ, self._hear_agent)

    def serve(self) -> None:
        """Pass lines on until the lease has run out; then undo everything."""
        try:
            while self._alive and (left_s := self._ends_s - now_s()) > 0:
                for key, _ in self._selector.select(min(left_s, 1.0)):
                    key.data()
        finally:  # Also after a bug of ours, because no other program would undo it.
            self._agent.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(AGENT_END_S)
            undo(self._order)

    def _stop(self) -> None:
        self._alive = False

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        self._drop_client()  # The newest connection is the harness's. An older one was lost.
        client.settimeout(SEND_TIMEOUT_S)
        self._client, self._from_client = client, b""
        self._selector.register(client, selectors.EVENT_READ, self._hear_client)
        if self._process.poll() is not None:
            self._drop_client()

    def _drop_client(self) -> None:
        if self._client is not None:
            self._selector.unregister(self._client)
            self._client.close()
            self._client = None

    def _hear_client(self) -> None:
        data = _received(self._client)
        if not data:
            self._drop_client()
            return
        self._ends_s = now_s() + self._order["ttl_s"]
        *lines, self._from_client = (self._from_client + data).split(b"\n")
        for line in lines:
            self._pass_on(line)

    def _pass_on(self, line: bytes) -> None:
        if not line:
            self._tell_client(free_bytes(self._folder) + b"\n")
            return
        try:
            request_id = json.loads(line)["id"]
        except ValueError:  # The line broke off. The harness sends it again on another connection.
            self._drop_client()
            return
        if request_id == self._request_id:
            self._tell_client(self._answer)  # Empty while the request is being executed.
            return
        self._request_id, self._answer = request_id, b""
        try:
            self._agent.sendall(line + b"\n")
        except OSError:
            self._drop_client()

    def _hear_agent(self) -> None:
        data = _received(self._agent)
        if not data:
            self._selector.unregister(self._agent)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(AGENT_END_S)
            self._drop_client()
            return
        *lines, self._from_agent = (self._from_agent + data).split(b"\n")
        for line in lines:
            self._answer = line + b"\n"
            self._tell_client(self._answer)

    def _tell_client(self, data: bytes) -> None:
        try:
            if self._client is not None:
                self._client.sendall(data)
        except OSError:
            self._drop_client()


def free_bytes(folder: Path) -> bytes:
    """Return the free bytes on a folder's disk, as decimal digits.

    The result is empty if the folder is missing.
    """
    try:
        room = os.statvfs(folder)
    except OSError:
        return b""
    return str(room.f_bavail * room.f_frsize).encode()


def make_folder(folder: Path) -> None:
    """Create a run's folder. If the parent folder is new, mark it as created by Logquake.

    During this call, other runs on this host may begin and end.

    Raises:
        FileExistsError: The run's folder exists already.
        FileNotFoundError: Other runs removed the parent folder at each attempt.
    """
    base = folder.parent
    for last in (False,) * BASE_ATTEMPTS + (True,):
        try:
            with contextlib.suppress(FileExistsError):
                base.mkdir(parents=True)
                (base / OURS).touch()
            folder.mkdir(mode=0o700)
        except FileNotFoundError:  # Another run, the last one there, has just removed the folder.
            if last:
                raise
        else:
            return


def _received(end: "socket.socket | None") -> bytes:
    try:
        return end.recv(READ_BYTES) if end is not None else b""
    except OSError:
        return b""
