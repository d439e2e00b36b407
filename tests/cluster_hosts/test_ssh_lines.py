"""The line to an ssh host, on connections that come and go as a test likes."""

import itertools
import threading
from pathlib import Path

import paramiko
import pytest

from cluster.hosts.ssh import line as line_module
from cluster.hosts.ssh.connection import SshConnection
from cluster.hosts.ssh.file import SshHost, load_hosts
from cluster.hosts.ssh.line import SshLine
from cluster.protocol import ClusterError
from results.record.clock import wait_until

SOON_S, LATE_S = 0.2, 1.0
QUESTION, ANSWER = b'{"id": 1}\n', b'{"id": 1, "done": true}\n'


class Channel(paramiko.Channel):
    """Answers a question, if it is told to, and nothing else."""

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers
        self._said = threading.Event()

    def __del__(self) -> None:
        """Have nothing to tell a transport."""

    def settimeout(self, timeout: float | None) -> None:
        self._timeout_s = timeout

    def sendall(self, s: bytes | bytearray) -> None:
        if self._answers and s == QUESTION:
            self._said.set()

    def recv(self, nbytes: int) -> bytes:
        if self._said.wait(self._timeout_s):
            self._said.clear()
            return ANSWER[:nbytes]
        raise TimeoutError

    def close(self) -> None:
        """There is nothing to close."""


class Connection(SshConnection):
    """One that a test makes and breaks."""

    def __init__(self, host: SshHost) -> None:
        super().__init__(host)
        self.reachable = threading.Event()
        self.answers = True

    def channel(self, command: str) -> Channel:  # noqa: ARG002 - as it is called
        if not self.reachable.is_set():
            raise ClusterError("there is no way to it")
        return Channel(answers=self.answers)


@pytest.fixture
def connection(tmp_path: Path) -> Connection:
    file = tmp_path / "HOSTS.toml"
    file.write_text('ttl_s = 20\n[[hosts]]\naddress = "10.0.0.1"\n')
    return Connection(load_hosts(file)[0])


def test_an_answer_is_waited_for_while_the_line_is_broken(connection: Connection) -> None:
    line = SshLine(connection, "/run")
    line.send(QUESTION, SOON_S)
    back = threading.Timer(LATE_S, connection.reachable.set)
    back.start()
    assert line.receive(SOON_S) == ANSWER
    back.join()
    line.close()
    line.wait_closed()


class Stream(Channel):
    """Has something to be read three times, then nothing any more."""

    def __init__(self) -> None:
        super().__init__(answers=False)
        self.left = 3

    def recv(self, nbytes: int) -> bytes:
        if not self.left:
            raise TimeoutError
        self.left -= 1
        return ANSWER[:nbytes]


class Streaming(Connection):
    """One whose channels are streams."""

    def __init__(self, host: SshHost) -> None:
        super().__init__(host)
        self.channels: list[Stream] = []

    def channel(self, command: str) -> Channel:  # noqa: ARG002 - as it is called
        self.channels.append(Stream())
        return self.channels[-1]


def test_what_came_while_we_stood_still_is_heard_before_a_line_is_called_broken(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A harness that gets no processor for seconds has no reason to drop its connections."""
    looks = itertools.count()
    monkeypatch.setattr(line_module, "stopwatch_s", lambda: 100.0 * next(looks))
    streaming = Streaming(connection.host)
    line = SshLine(streaming, "/run")
    assert [line.receive(20) for _ in range(3)] == [ANSWER] * 3
    line.close()
    line.wait_closed()
    assert streaming.channels[0].left == 0


def test_an_agent_that_does_not_answer_is_not_waited_for(connection: Connection) -> None:
    connection.answers = False
    connection.reachable.set()
    line = SshLine(connection, "/run")
    wait_until(lambda: line.is_up, timeout_s=20, what="the line")
    line.send(QUESTION, SOON_S)
    with pytest.raises(TimeoutError):
        line.receive(SOON_S)
    line.close()
    line.wait_closed()
