"""Run commands for a node of an attached cluster: only commands that the user's file allows."""

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from cluster.hosts.ledger import RUN_MARK
from cluster.protocol import ClusterError
from results.record.attached_file import AttachedFile, Commands

MAX_SAID = 200
_PLACES = re.compile(r"\{(node|id|own_host|own_port|pid|host|port|prefix)\}")


class CommandError(ClusterError):
    """A user's command failed or timed out.

    The message is one sentence that includes the command's output.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The result of a command.

    Attributes:
        code: Its exit code.
        out: Its standard output.
        err: Its standard error.
    """

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs the commands in an attached cluster's file. The working directory is the file's folder.

    Attributes:
        file: The content of the file, with the allowed commands.
        path: The file.
    """

    file: AttachedFile
    path: Path

    def allowed(self, broker_id: int) -> Commands:
        """Return the commands that the file allows for a broker."""
        return self.file.commands(broker_id)

    def has(self, broker_id: int, what: str) -> bool:
        """Return whether the file allows a command for a broker."""
        return getattr(self.allowed(broker_id), what) is not None

    def run(
        self,
        broker_id: int,
        what: str,
        places: Mapping[str, object],
        *,
        into: IO[bytes] | None = None,
    ) -> Said:
        """Run a command and return its result.

        Args:
            broker_id: The broker.
            what: The command's name, such as `kill`.
            places: Values for placeholders such as `{host}`.
            into: A file to which the output is written. With None, the output is returned.

        Raises:
            CommandError: The command is not allowed, cannot start, or does not end in time.
        """
        words = getattr(self.allowed(broker_id), what)
        if words is None:
            raise CommandError(f"{self.path} has no command `{what}` for broker {broker_id}")
        argv = filled(words, {"node": f"n{broker_id}", "id": broker_id, **places})
        with TemporaryFile() as out, TemporaryFile() as err:
            code = self._ended(argv, what, broker_id, out=into or out, err=err)
            return Said(code=code, out="" if into else _text(out), err=_text(err))

    def do(self, broker_id: int, what: str, places: Mapping[str, object]) -> None:
        """Run a command that must succeed.

        Raises:
            CommandError: The command fails with another exit code than 0, or `run` raises this
                error.
        """
        said = self.run(broker_id, what, places)
        if said.code:
            raise failed(what, broker_id, said)

    def _ended(
        self, argv: Sequence[str], what: str, broker_id: int, *, out: IO[bytes], err: IO[bytes]
    ) -> int:
        limits = self.file.limits
        limit_s = {"files": limits.files_s, "start": limits.start_s, "stop": limits.start_s}
        timeout_s = limit_s.get(what, limits.command_s)
        # Without the run's mark: a broker that the command starts is the user's, not a leftover of
        # the run. Output goes to files, because a process that stays may keep pipes open.
        environment = {key: value for key, value in os.environ.items() if key != RUN_MARK}
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own command, from a file of theirs
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self.path.parent,
                env=environment,
                start_new_session=True,
            )
        except OSError as missing:
            raise CommandError(
                f"the command `{what}` of broker {broker_id} cannot be started:"
                f" {argv[0]}: {missing.strerror}"
            ) from missing
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired as late:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise CommandError(
                f"the command `{what}` of broker {broker_id} did not end within {timeout_s:g} s"
                " and was killed"
            ) from late


def failed(what: str, broker_id: int, said: Said) -> CommandError:
    """Return the error for a command with an exit code other than 0."""
    words = " ".join((said.err or said.out).split())[:MAX_SAID] or "it printed nothing"
    return CommandError(
        f"the command `{what}` of broker {broker_id} exited with {said.code}: {words}"
    )


def filled(words: Sequence[str], places: Mapping[str, object]) -> list[str]:
    """Return a command with its placeholders replaced; unknown placeholders stay unchanged."""

    def value(match: re.Match[str]) -> str:
        return str(places[match[1]]) if match[1] in places else match[0]

    return [_PLACES.sub(value, word) for word in words]


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(1 << 16).decode("utf-8", "replace").strip()
