"""Runs on any path that Spark reads: `hdfs://`, `s3a://`, `file://`, whatever Hadoop knows.

What a run is, its plan and how far it came, is small; it is copied to a folder here, and so are its
tables, from which the driver takes what all groups need to know. The tasks of a cluster get the
tables from where they lie (see `shuffled.py`). What comes of a judgement is copied back, if that
place may be written.
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
"""What nodes left; looked into only by ingest."""
_DEPTH = 2


class Elsewhere:
    """The file systems that a Spark session reads.

    Args:
        session: A session of this process, not of a Spark Connect server.
    """

    def __init__(self, session: SparkSession) -> None:
        self._hadoop: Any = session._jvm  # noqa: SLF001 - pyspark has no other way to a file system
        self._settings: Any = session._jsc.hadoopConfiguration()  # noqa: SLF001 - as above

    def runs(self, pattern: str) -> list[str]:
        """Return the folders of runs that a URI means; it may have `*` and the like.

        Raises:
            EngineError: It cannot be read, or there is no run.
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
        """Copy what the driver needs of a run; all of it, if its tables are not worked out.

        Args:
            uri: The run.
            folder: Becomes the parent of `<name>/<run>`, so that the copy has the run's id.

        Returns:
            The copy.

        Raises:
            EngineError: It cannot be read.
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
        """Copy files of a run's copy to where the run lies; those that are not there are left out.

        Raises:
            EngineError: That place cannot be written.
        """
        with _told(f"nothing can be written to {uri}"):
            for name in names:
                if (root / name).exists():
                    system, target = self._at(f"{uri}/{name}")
                    if system.exists(target) and system.getFileStatus(target).isDirectory():
                        raise EngineError(
                            f"nothing can be written to {uri}: {name} is a folder there"
                        )
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
        """Make the folders that are there, without what is in them."""
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
        # `True`: without the checksum files that Hadoop would leave beside each copy.
        path.getFileSystem(self._settings).copyToLocalFile(False, path, self._here(to), True)  # noqa: FBT003 - Java's


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Turn what Java throws into one sentence."""
    try:
        yield
    except Py4JJavaError as thrown:
        message = str(thrown.java_exception.getMessage() or thrown.java_exception).splitlines()[0]
        raise EngineError(f"{what}: {message}") from thrown
    except (PySparkException, Py4JError) as failed:
        raise EngineError(f"{what}: {str(failed).splitlines()[0]}") from failed
