"""Handle runs at any path that Spark reads: `hdfs://`, `s3a://`, `file://`, or other Hadoop paths.

A run's description, plan and milestones are small. These files are copied to a folder on this
machine. The tables are copied too, because the driver reads the run's facts from them. The tasks of
a cluster read the tables at their original path (see `shuffled.py`). The results are copied back if
Spark can write to that path.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]  # It has no stubs.
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from checkers.engine import EngineError
from checkers.folder import tables_of
from results.record.paths import RunPaths

_FOLDERS = ("nodes", "snapshots")
"""The folders with the nodes' files. Only ingest reads these files."""
_DEPTH = 2


class Elsewhere:
    """Access to the file systems that a Spark session can read.

    Args:
        session: A session of this process. A session of a Spark Connect server does not work.
    """

    def __init__(self, session: SparkSession) -> None:
        self._hadoop: Any = session._jvm  # noqa: SLF001 - pyspark has no other way to a file system
        self._settings: Any = session._jsc.hadoopConfiguration()  # noqa: SLF001 - as above

    def runs(self, pattern: str) -> list[str]:
        """Return the run folders that match a URI, which may contain wildcards such as `*`.

        Raises:
            EngineError: The URI cannot be read, or there is no run.
        """
        with _told(f"{pattern} cannot be read"):
            system, path = self._at(pattern)
            found = system.globStatus(path) or []
            folders = [str(each.getPath().toString()) for each in found if each.isDirectory()]
            runs = [folder for folder in sorted(folders) if self._is_run(folder)]
        if not runs:
            raise EngineError(f"there is no run at {pattern}: a run is a folder with a plan.toml")
        return runs

    def fetch(self, uri: str, folder: Path) -> Path:
        """Copy a run's files to a local folder, if the driver needs these files.

        If ingest must still make the run's tables, the whole run is copied.

        Args:
            uri: The run.
            folder: The path of the copy is `<folder>/<name>/<run>`, so that the copy has the run's
                id.

        Returns:
            The folder of the copy.

        Raises:
            EngineError: The run cannot be read.
        """
        *_, name, run = uri.rstrip("/").split("/")
        root = folder / name / run
        root.mkdir(parents=True)
        paths = RunPaths(root)
        with _told(f"{uri} cannot be read"):
            self._files(uri, root)
            self._files(f"{uri}/record", paths.record)
            whole = all(paths.table(table).exists() for table in tables_of(paths))
            if whole and (paths.record / "ingest.json").exists():
                for each in _FOLDERS:
                    self._names(f"{uri}/{each}", root / each)
            else:
                for each in (*_FOLDERS, "record/live"):
                    self._tree(f"{uri}/{each}", root / each)
        return root

    def put(self, root: Path, uri: str, names: Sequence[str]) -> None:
        """Copy files from a run's local copy back to the run's path; skip missing files.

        Raises:
            EngineError: The run's path cannot be written.
        """
        with _told(f"cannot write to {uri}"):
            for name in names:
                if (root / name).exists():
                    system, target = self._at(f"{uri}/{name}")
                    if system.exists(target) and system.getFileStatus(target).isDirectory():
                        raise EngineError(f"cannot write to {uri}: {name} is a folder there")
                    system.mkdirs(target.getParent())
                    system.copyFromLocalFile(False, True, self._here(root / name), target)  # noqa: FBT003 - Java's

    def _at(self, uri: str) -> tuple[Any, Any]:
        path = self._hadoop.org.apache.hadoop.fs.Path(uri)
        return path.getFileSystem(self._settings), path

    def _here(self, path: Path) -> Any:  # noqa: ANN401 - a Java object
        return self._hadoop.org.apache.hadoop.fs.Path(path.absolute().as_uri())

    def _is_run(self, uri: str) -> bool:
        system, path = self._at(f"{uri}/plan.toml")
        return bool(system.exists(path))

    def _list(self, uri: str) -> list[Any]:
        system, path = self._at(uri)
        return list(system.listStatus(path)) if system.exists(path) else []

    def _files(self, uri: str, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        for each in self._list(uri):
            if each.isFile() and not each.getPath().getName().endswith(".html"):
                self._copy(each.getPath(), folder)

    def _names(self, uri: str, folder: Path, depth: int = _DEPTH) -> None:
        """Create the subfolders that the remote folder has, but copy no files."""
        for each in self._list(uri) if depth else ():
            if each.isDirectory():
                inner = folder / each.getPath().getName()
                inner.mkdir(parents=True)
                self._names(each.getPath().toString(), inner, depth - 1)

    def _tree(self, uri: str, folder: Path) -> None:
        system, path = self._at(uri)
        if system.exists(path):
            folder.parent.mkdir(parents=True, exist_ok=True)
            self._copy(path, folder)

    def _copy(self, path: Any, to: Path) -> None:  # noqa: ANN401 - a Java object
        # `True`: Hadoop writes no checksum files next to the copies.
        path.getFileSystem(self._settings).copyToLocalFile(False, path, self._here(to), True)  # noqa: FBT003 - Java's


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Convert a Java or pyspark exception into an `EngineError` of one sentence."""
    try:
        yield
    except Py4JJavaError as thrown:
        message = str(thrown.java_exception.getMessage() or thrown.java_exception).splitlines()[0]
        raise EngineError(f"{what}: {message}") from thrown
    except (PySparkException, Py4JError) as failed:
        raise EngineError(f"{what}: {str(failed).splitlines()[0]}") from failed
