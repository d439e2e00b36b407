"""Read and change a node's files on this machine, for any kind of hosts."""

import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, slots=True)
class LocalDisk:
    """Implements `cluster.protocol.Disk` for a node with a folder on this machine.

    Attributes:
        folder: The node's folder, `RunPaths.node(node)`.
    """

    folder: Path

    def files(self, pattern: str = "**/*") -> list[PurePosixPath]:
        """Return the paths of the files that match a pattern, without folders, sorted."""
        found = [path for path in self.folder.glob(pattern) if path.is_file()]
        return sorted(PurePosixPath(path.relative_to(self.folder)) for path in found)

    def size(self, path: PurePosixPath | str) -> int:
        """Return the size of a file in bytes."""
        return (self.folder / path).stat().st_size

    def read(self, path: PurePosixPath | str, *, at: int = 0, size: int = -1) -> bytes:
        """Return `size` bytes of a file from offset `at`; -1 means all bytes up to the end."""
        with (self.folder / path).open("rb") as file:
            file.seek(at)
            return file.read(size)

    def write(self, path: PurePosixPath | str, data: bytes, *, at: int = 0) -> None:
        """Write bytes into a file at an offset, and keep all other bytes; create a missing file."""
        target = self.folder / path
        with target.open("r+b" if target.exists() else "wb") as file:
            file.seek(at)
            file.write(data)

    def truncate(self, path: PurePosixPath | str, size: int) -> None:
        """Truncate a file to its first `size` bytes."""
        with (self.folder / path).open("r+b") as file:
            file.truncate(size)

    def remove(self, path: PurePosixPath | str) -> None:
        """Remove a file, or a folder with its contents. Idempotent."""
        target = self.folder / path
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
