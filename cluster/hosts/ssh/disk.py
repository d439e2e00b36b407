"""Read and change a node's files on an ssh host."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

import paramiko

from cluster.hosts.ssh.connection import SshConnection
from cluster.protocol import ClusterError


@dataclass(frozen=True, slots=True)
class SftpDisk:
    """Implements `cluster.protocol.Disk` over SFTP.

    Attributes:
        connection: The connection to the host.
        folder: The node's folder on the host.
    """

    connection: SshConnection
    folder: PurePosixPath

    def files(self, pattern: str = "**/*") -> list[PurePosixPath]:
        """Return the paths of the files that match a pattern, without folders, sorted."""
        found = self._call("files", pattern=pattern)["files"]
        return sorted(PurePosixPath(path) for path in found)

    def size(self, path: PurePosixPath | str) -> int:
        """Return the size of a file in bytes."""
        with self._sftp(path) as sftp:
            return sftp.stat(str(self.folder / path)).st_size or 0

    def read(self, path: PurePosixPath | str, *, at: int = 0, size: int = -1) -> bytes:
        """Return `size` bytes of a file from offset `at`; if `size` is -1, all bytes to the end."""
        with self._sftp(path) as sftp, sftp.open(str(self.folder / path), "rb") as file:
            file.seek(at)
            return file.read(size if size >= 0 else None)

    def write(self, path: PurePosixPath | str, data: bytes, *, at: int = 0) -> None:
        """Write bytes into a file at an offset; create a missing file. Change no other bytes."""
        target = str(self.folder / path)
        with self._sftp(path) as sftp:
            try:
                file = sftp.open(target, "r+b")
            except FileNotFoundError:
                file = sftp.open(target, "wb")
            with file:
                file.seek(at)
                file.write(data)

    def truncate(self, path: PurePosixPath | str, size: int) -> None:
        """Truncate a file to its first `size` bytes."""
        with self._sftp(path) as sftp:
            sftp.truncate(str(self.folder / path), size)

    def remove(self, path: PurePosixPath | str) -> None:
        """Remove a file, or a folder with its contents. Idempotent."""
        self._call("remove", path=str(path))

    @contextlib.contextmanager
    def _sftp(self, path: PurePosixPath | str) -> Iterator[paramiko.SFTPClient]:
        """Yield the SFTP session. If an error names no file, add the path to the error."""
        try:
            with self.connection.sftp() as sftp:
                yield sftp
        except OSError as failed:
            if failed.errno is None:
                raise
            raise OSError(failed.errno, failed.strerror, str(path)) from failed

    def _call(self, do: str, **order: str) -> dict[str, list[str]]:
        try:
            return self.connection.call(do, {"folder": str(self.folder), **order})
        except ClusterError as refused:
            raise OSError(str(refused)) from refused
