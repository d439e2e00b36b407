"""The documentation as it is shipped: where its sources are, and how its site is built.

A wheel has the sources in `harness/shipped/` (`setup.py` copies them); a checkout has them at its
root. MkDocs builds the site; its plugin `harness.documentation` writes the reference from the code.
"""

import hashlib
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from cluster.cache import cache_folder, locked
from cluster.protocol import UserError

CONFIG = "mkdocs.yml"
_SHIPPED = Path(__file__).with_name("shipped")
_CHECKOUT = Path(__file__).parents[1]
_BUILDERS = (
    "mkdocs", "mkdocs-material", "markdown", "pymdown-extensions", "jinja2", "pygments", "logquake",
)  # fmt: skip
PACKAGES = ("logquake", "harness", "workloads", "nemesis", "checkers", "cluster", "results")


def sources() -> Path:
    """Return the folder that holds `mkdocs.yml` and `docs/`."""
    return _SHIPPED if (_SHIPPED / CONFIG).is_file() else _CHECKOUT


def outside_pages() -> list[str]:
    """Return the pages outside of `docs/` that the site has: the READMEs of packages, and others.

    Each is a path from `sources()`, with slashes.
    """
    root = sources()
    found = [root / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    found += (page for each in (*PACKAGES, "tests") for page in (root / each).rglob("README.md"))
    return sorted(page.relative_to(root).as_posix() for page in found if page.is_file())


def build_site(folder: Path, *, strict: bool = False) -> None:
    """Build the site into a folder. Existing files in it are replaced.

    Args:
        folder: Where to build it.
        strict: Whether a warning, such as a link that leads nowhere, is an error.

    Raises:
        UserError: The site cannot be built: the sentence has the reason.
    """
    from mkdocs.commands.build import build  # noqa: PLC0415 - MkDocs is for this only
    from mkdocs.config import load_config  # noqa: PLC0415 - the same
    from mkdocs.exceptions import Abort, MkDocsException  # noqa: PLC0415 - the same

    logging.getLogger("mkdocs").setLevel(logging.WARNING)
    try:
        config = load_config(
            str(sources() / CONFIG), site_dir=str(folder.absolute()), strict=strict
        )
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
        config.plugins.on_shutdown()
    except (Abort, MkDocsException) as failed:
        raise UserError(f"the documentation cannot be built: {failed}") from failed


def built_site(say: Callable[[str], None]) -> Path:
    """Return the folder of the built site; build it at its first use.

    The folder is in the user's cache, and belongs to one state of the sources and of the code.

    Args:
        say: Told when the site is built, which takes some seconds.

    Raises:
        UserError: It cannot be built, or the cache cannot be used.
    """
    home = cache_folder() / "docs"
    folder = home / fingerprint()
    with locked(home / "lock", say):
        if not folder.is_dir():
            say("building the documentation (once for each version)")
            _build_whole(home, folder)
    return folder


def _build_whole(home: Path, folder: Path) -> None:
    """Build beside the folder and rename, so that an interrupted build leaves none behind."""
    for old in home.iterdir():
        if old.is_dir():
            shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=home) as beside:
        build_site(Path(beside) / "site")
        (Path(beside) / "site").rename(folder)


def fingerprint() -> str:
    """Return a name that changes with the pages, the code, and the programs that build the site."""
    taken = hashlib.sha256()
    for each in _BUILDERS:
        with suppress(ImportError):  # Without metadata: a checkout that is not installed.
            taken.update(f"{each} {version(each)}\n".encode())
    for path, name in _read_by_a_build():
        taken.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return taken.hexdigest()[:16]


def _read_by_a_build() -> Iterator[tuple[Path, str]]:
    root, code = sources(), _CHECKOUT
    for path in sorted((root / "docs").rglob("*")):
        if path.is_file():
            yield path, path.relative_to(root).as_posix()
    for name in (CONFIG, *outside_pages()):
        yield root / name, name
    for package in PACKAGES:
        for path in sorted((code / package).rglob("*.py")):
            yield path, path.relative_to(code).as_posix()
