"""Connect to an ssh host. If the connection is lost, connect again."""

import contextlib
import json
import logging
import shlex
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import paramiko

from cluster.hosts.agent import Message
from cluster.hosts.ssh.file import SshHost
from cluster.protocol import ClusterError, UserError

CONNECT_TIMEOUT_S = 10.0
LOGIN_TIMEOUT_S = 20.0
"""A long timeout: on a busy machine, sshd takes seconds to compute its keys."""
CALL_TIMEOUT_S = 60.0
MODULES = ("undoing", "errands", "warden")
"""Modules sent to the host's Python, in the order in which they import one another."""
_BOOTSTRAP = """\
import json, sys, types
order = json.load(sys.stdin)
for name, text in order.pop("sources"):
    sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), sys.modules[name].__dict__)
sys.modules["cluster.hosts.ssh.warden"].main(order)
"""
# Exceptions contain paramiko's messages. Without a handler, paramiko also prints these messages to
# the terminal.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class _UnknownHostKeyError(paramiko.SSHException):
    pass


class _Refuse(paramiko.RejectPolicy):
    """A policy that refuses hosts without a key in the known-hosts file, and never adds a key."""

    def missing_host_key(
        self,
        client: paramiko.SSHClient,  # noqa: ARG002 - paramiko's
        hostname: str,  # noqa: ARG002 - paramiko's
        key: paramiko.PKey,
    ) -> NoReturn:
        """Raise an error that contains the unknown key."""
        raise _UnknownHostKeyError(f"{key.get_name()} {key.fingerprint}")


class SshConnection:
    """A logged-in connection to one host. Thread-safe.

    Args:
        host: The host.
    """

    def __init__(self, host: SshHost) -> None:
        self.host = host
        self._lock = threading.RLock()
        self._sftp_lock = threading.Lock()
        self._client: paramiko.SSHClient | None = None
        self._sftp: paramiko.SFTPClient | None = None

    def transport(self) -> paramiko.Transport:
        """Return the connection's transport; connect if no transport is active.

        Raises:
            UserError: The host cannot be reached, its key is wrong, or it refuses the login.
        """
        with self._lock:
            transport = self._client.get_transport() if self._client else None
            if transport is None or not transport.is_active():
                self._connect()
                transport = self._client.get_transport() if self._client else None
            if transport is None:
                raise ClusterError(
                    f"the connection to {self.host.name} was lost right after the login"
                )
            return transport

    def close(self) -> None:
        """Close the connection; the next use opens a new one."""
        with self._lock:
            client, self._client, self._sftp = self._client, None, None
        if client is not None:
            client.close()

    def channel(self, command: str) -> paramiko.Channel:
        """Start a command on the host; return its channel.

        If the start fails, connect again and retry once: perhaps the connection was lost earlier,
        and only this start notices the loss.
        """
        try:
            return self._start(command)
        except (paramiko.SSHException, EOFError, OSError):
            self.close()
        try:
            return self._start(command)
        except (paramiko.SSHException, EOFError, OSError) as lost:
            raise ClusterError(f"{self.host.name} cannot start a command: {lost}") from lost

    def _start(self, command: str) -> paramiko.Channel:
        channel = self.transport().open_session(timeout=LOGIN_TIMEOUT_S)
        channel.exec_command(command)
        return channel

    def call(
        self, do: str, order: Mapping[str, object], *, environment: Mapping[str, str] | None = None
    ) -> Message:
        """Run a request in the host's Python (`cluster.hosts.ssh.warden.main`); return the result.

        Raises:
            UserError: The host has no Python, or its Python is too old.
            ClusterError: The request failed.
        """
        marks = [f"{name}={value}" for name, value in (environment or {}).items()]
        command = shlex.join(["env", *marks, "python3", "-I", "-S", "-c", _BOOTSTRAP])
        channel = self.channel(command)
        try:
            channel.settimeout(CALL_TIMEOUT_S)
            said, complaint = _said(channel, {**order, "do": do, "sources": _sources()})
        except (paramiko.SSHException, EOFError, OSError) as lost:
            raise ClusterError(f"the connection to {self.host.name} was lost: {lost}") from lost
        finally:
            channel.close()
        return self._answer(said, complaint)

    @contextlib.contextmanager
    def sftp(self) -> Iterator[paramiko.SFTPClient]:
        """Yield the only SFTP session; only one thread at a time can use the session."""
        with self._sftp_lock:
            try:
                yield self._open_sftp()
            except (paramiko.SSHException, EOFError, ClusterError) as lost:
                raise ConnectionResetError(f"{self.host.name}: {lost}") from lost

    def _open_sftp(self) -> paramiko.SFTPClient:
        transport = self.transport()
        if self._sftp is None or self._sftp.sock.closed:
            self._sftp = paramiko.SFTPClient.from_transport(transport)
        if self._sftp is None:
            raise ClusterError("the host does not support SFTP")
        return self._sftp

    def _answer(self, said: bytes, complaint: bytes) -> Message:
        name = self.host.name
        try:
            answer: Message = json.loads(said)
        except ValueError as wrong:
            words = complaint.decode(errors="replace").strip().splitlines() or ["nothing"]
            if "python3" in words[-1] and ("not found" in words[-1] or "No such" in words[-1]):
                raise UserError(
                    f"{name} has no python3, which Logquake's agent needs: install python3 on"
                    f" {name}"
                ) from wrong
            raise ClusterError(f"{name} cannot carry out a request: {words[-1]}") from wrong
        if "error" in answer:
            raise ClusterError(f"{name}: {answer['error']}")
        return answer

    def _connect(self) -> None:
        self.close()
        host = self.host
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(_Refuse())
        try:
            _load_known(client, host)
            client.connect(
                host.ssh_address,
                port=host.port,
                username=host.user,
                key_filename=host.key,
                look_for_keys=host.key is None,
                allow_agent=host.key is None,
                timeout=CONNECT_TIMEOUT_S,
                banner_timeout=LOGIN_TIMEOUT_S,
                auth_timeout=LOGIN_TIMEOUT_S,
            )
        except (paramiko.SSHException, EOFError, OSError, ValueError) as refused:
            client.close()
            raise _refusal(host, refused) from refused
        self._client = client


def _load_known(client: paramiko.SSHClient, host: SshHost) -> None:
    try:
        client.load_host_keys(host.known_hosts)
    except OSError as unreadable:
        raise UserError(
            f"the known_hosts file {host.known_hosts} for {host.name} cannot be read:"
            f" {unreadable.strerror}; create it with ssh-keyscan, and compare the keys"
        ) from unreadable


def _refusal(host: SshHost, error: Exception) -> UserError:
    """Return an error that explains why a host cannot be used, and how to remedy this."""
    place = f"{host.name} ({host.ssh_address} port {host.port})"
    match error:
        case _UnknownHostKeyError():
            why = (
                f"the host key of {place} is unknown: {error}; if this key is right, add it to"
                f" {host.known_hosts}"
            )
        case paramiko.BadHostKeyException():
            why = (
                f"the host key of {place} differs from the key in {host.known_hosts}: the key has"
                " changed, or another machine answers; nothing was sent to that machine"
            )
        case paramiko.PasswordRequiredException():
            why = (
                f"the key {host.key} has a passphrase: use a key without a passphrase, or an"
                " ssh agent"
            )
        case paramiko.AuthenticationException():
            key = f"the key {host.key}" if host.key else "the keys of the ssh agent and of ~/.ssh"
            why = f"{place} refuses the login of {host.user} with {key}"
        case FileNotFoundError() | PermissionError() if host.key:
            why = f"the key {host.key} cannot be read: {error.strerror}"
        case OSError() | EOFError():
            said = getattr(error, "strerror", None) or str(error) or "the connection was closed"
            why = f"{place} cannot be reached: {said}"
        case _:
            why = f"{place} cannot be used: {error}"
    return UserError(why)


def _sources() -> list[tuple[str, str]]:
    folder = Path(__file__).parent
    return [
        (f"cluster.hosts.ssh.{name}", (folder / f"{name}.py").read_text(encoding="utf-8"))
        for name in MODULES
    ]


def _said(channel: paramiko.Channel, order: Mapping[str, object]) -> tuple[bytes, bytes]:
    """Send a request; return what the program wrote to standard output and standard error."""
    with contextlib.suppress(OSError):  # Without a Python, stderr has the reason.
        channel.sendall(json.dumps(order).encode())
        channel.shutdown_write()
    said = b""
    while data := channel.recv(1 << 16):
        said += data
    complaint = b""
    while data := channel.recv_stderr(1 << 16):
        complaint += data
    return said, complaint
