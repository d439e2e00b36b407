"""Copy many files to or from an ssh host as one tar stream."""

import io
import json
import shlex
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, cast

import paramiko

from cluster.hosts.ssh.connection import SshConnection
from cluster.protocol import ClusterError, UserError

TEXTS = frozenset({".properties", ".xml", ".yaml", ".yml"})
"""If a file directly in a node's folder has one of these suffixes, its paths are translated."""
STREAM_TIMEOUT_S = 60.0
"""Seconds without progress after which a stream counts as broken."""
NODE_DEPTH = 3
"""The number of path components of a file such as `nodes/n1/server.properties`."""


def send_tar(
    connection: SshConnection,
    folder: str,
    files: Mapping[PurePosixPath, Path],
    *,
    change: Callable[[str], str],
) -> None:
    """Write files into the run's folder on a host.

    Args:
        connection: The connection to the host.
        folder: The run's folder on the host.
        files: The files and folders of this machine. The key of each is its path in the run's
            folder on the host.
        change: Translates paths in configuration files into paths on the host.

    Raises:
        UserError: The host's disk is full.
        ClusterError: The copy failed.
    """
    channel = connection.channel(_errand(folder, "unpack", folder))
    channel.settimeout(STREAM_TIMEOUT_S)
    stopped: Exception | None = None
    try:
        with tarfile.open(fileobj=_Sink(channel), mode="w|", bufsize=1 << 18) as archive:
            for place, path in sorted(files.items()):
                _add(archive, place, path, change)
        channel.shutdown_write()
    except (OSError, EOFError, paramiko.SSHException) as lost:
        stopped = lost
    _see_done(connection, channel, stopped)


def fetch_tar(
    connection: SshConnection, run: str, folders: tuple[str, Path], *, left_out: Sequence[str]
) -> None:
    """Copy a folder of a host to this machine. Existing files are overwritten.

    Args:
        connection: The connection to the host.
        run: The run's folder on the host, which contains the packing program.
        folders: The source folder on the host, and the target folder on this machine.
        left_out: Suffixes of files that are not copied.

    Raises:
        ClusterError: The copy failed or is incomplete.
    """
    folder, here = folders
    channel = connection.channel(_errand(run, "pack", folder, *left_out))
    channel.settimeout(STREAM_TIMEOUT_S)
    here.mkdir(parents=True, exist_ok=True)
    try:
        stream = cast("IO[bytes]", channel.makefile("rb", 1 << 18))
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            archive.extractall(here, filter="data")
        complete = channel.recv_exit_status() == 0
    except (OSError, EOFError, tarfile.TarError, paramiko.SSHException) as lost:
        raise ClusterError(
            f"the files of {connection.host.name} could not be copied to this machine: {lost}"
        ) from lost
    finally:
        channel.close()
    if not complete:
        raise ClusterError(f"some files of {connection.host.name} could not be read")


class _Sink(io.RawIOBase):
    """A channel as a raw stream that tarfile can write to."""

    def __init__(self, channel: paramiko.Channel) -> None:
        super().__init__()
        self._channel = channel

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        text = bytes(cast("bytes", data))
        self._channel.sendall(text)
        return len(text)


def _errand(run: str, *words: str) -> str:
    return shlex.join(["python3", "-I", "-S", f"{run}/errands.py", *words])


def _add(
    archive: tarfile.TarFile, place: PurePosixPath, path: Path, change: Callable[[str], str]
) -> None:
    entry = archive.gettarinfo(str(path), arcname=str(place))
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    if not entry.isfile():
        archive.addfile(entry)
        return
    data = path.read_bytes()
    if path.suffix in TEXTS and len(place.parts) == NODE_DEPTH:
        data = change(data.decode("utf-8")).encode()
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def _see_done(
    connection: SshConnection, channel: paramiko.Channel, stopped: Exception | None
) -> None:
    name = connection.host.name
    try:
        said = channel.makefile("rb").read()
        answer = json.loads(said) if said else {"error": stopped or "the host reported nothing"}
    except (OSError, ValueError, paramiko.SSHException) as lost:
        answer = {"error": stopped or lost}
    finally:
        channel.close()
    if "error" in answer and "No space left" in str(answer["error"]):
        raise UserError(
            f"the disk of {connection.host.folder} on {name} is full; free some space, or name"
            " another folder in the hosts file"
        )
    if stopped or "error" in answer:
        raise ClusterError(
            f"the files of the run could not be copied to {name}: {answer.get('error', stopped)}"
        )
