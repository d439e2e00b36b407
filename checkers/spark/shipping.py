"""Pack our own code into an archive that the tasks of a cluster import.

The machines of a cluster need Python in the driver's minor version, and the libraries in `NEEDED`.
Logquake itself need not be installed there. This module imports only the standard library. The
tasks import this module first, to report missing libraries.
"""

import importlib.util
import platform
import socket
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

NEEDED = ("numpy", "pandas", "pyarrow", "pydantic", "scipy", "tomli_w")
"""The libraries that the checks import. pandas is listed because applyInArrow needs it."""
OF_FILES = ("cramjam", "crc32c", "kio", "xxhash")
"""Additional libraries for reading nodes' files. If a machine lacks these libraries, the driver
reads the files."""
PACKAGES = ("checkers", "results/record", "cluster/files")
"""The packages that are sent completely. For each parent package, only `__init__.py` is sent."""
UNSEEN = "the machines of the cluster cannot read the run's record"
ELSEWHERE = (
    "put the run on a path that all machines can read (hdfs://..., s3a://...), or use --engine"
    " local"
)
_ROOT = Path(__file__).parents[2]


def archive(folder: Path) -> Path:
    """Write the archive of our packages, and return its path."""
    path = folder / "logquake.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for file in sorted(set(_files())):
            zipped.write(file, file.relative_to(_ROOT))
    return path


def _files() -> Iterator[Path]:
    for name in PACKAGES:
        yield from (_ROOT / name).rglob("*.py")
        for above in Path(name).parents:
            if above.name:
                yield _ROOT / above / "__init__.py"


def missing(_rows: Iterable[object]) -> Iterator[str]:
    """Yield a sentence if the machine of this task lacks a needed library."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        yield (
            f"Python {platform.python_version()} on {socket.gethostname()} lacks"
            f" {', '.join(absent)}"
        )
