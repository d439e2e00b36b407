"""Our own code on its way to a cluster: what the tasks import, as one archive.

The machines of a cluster need a Python of the driver's minor version and the libraries of
`NEEDED`, and nothing of ours. Importing this module needs nothing but the standard library: it is
what the tasks import first, to tell what is missing there.
"""

import importlib.util
import platform
import socket
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

NEEDED = ("numpy", "pandas", "pyarrow", "pydantic", "scipy", "tomli_w")
"""What the kernels import; pandas, because applyInArrow refuses to run without it."""
OF_FILES = ("cramjam", "crc32c", "kio", "xxhash")
"""What reading nodes' files imports as well: machines without it have this one read them."""
PACKAGES = ("checkers", "results/record", "cluster/files")
"""Sent with all that is in them; of packages above them only what says that they are packages."""
UNSEEN = "the machines of the cluster do not see the record"
ELSEWHERE = (
    "put the run on a path that all of them read (hdfs://..., s3a://...), or use --engine local"
)
_ROOT = Path(__file__).parents[2]


def archive(folder: Path) -> Path:
    """Write the archive of our packages, and return where it is."""
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
    """Yield what the machine of this task lacks, a sentence each."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        yield (
            f"Python {platform.python_version()} on {socket.gethostname()} lacks"
            f" {', '.join(absent)}"
        )
