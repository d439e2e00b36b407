"""Find the sources of the shipped documentation, and build the site.

A wheel has the sources in `harness/shipped/`, where `setup.py` copies them. A checkout has the
sources at its root. MkDocs builds the site, and its plugin `harness.documentation` writes the
reference pages from the code.
"""

import hashlib
import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from cluster.cache import cache_folder, in_use, locked, remove_unused
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
    """Return the paths of the site's pages outside of `docs/`, such as the READMEs of packages.

    Each path is relative to `sources()`, with slashes.
    """
    root = sources()
    found = [root / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    found += (page for each in (*PACKAGES, "tests") for page in (root / each).rglob("README.md"))
    return sorted(page.relative_to(root).as_posix() for page in found if page.is_file())


def build_site(folder: Path, *, strict: bool = False) -> None:
    """Build the site into a folder. Existing files in the folder are replaced.

    Args:
        folder: The folder for the site.
        strict: Whether a warning, such as a broken link, is an error.

    Raises:
        UserError: The site cannot be built; the message has the reason.
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


@contextmanager
def built_site(say: Callable[[str], None]) -> Iterator[Path]:
    """Yield the folder of the built site; build the site at its first use.

    The folder is in the user's cache. Each version of Logquake's sources and code has another
    folder. Folders of other versions are removed, unless another process uses them.

    Args:
        say: The function that prints a message before the site is built, because that takes some
            seconds.

    Raises:
        UserError: The site cannot be built, or the cache cannot be used.
    """
    home = cache_folder() / "docs"
    folder = home / fingerprint()
    with ExitStack() as used:
        with locked(home / "lock", say, doing="building the documentation"):
            if not folder.is_dir():
                say("building the documentation (once for each version)")
                _build_whole(home, folder)
            used.enter_context(in_use(folder))
        yield folder


def _build_whole(home: Path, folder: Path) -> None:
    """Build in a temporary folder, then rename it. So an interrupted build leaves no folder."""
    for old in home.iterdir():
        if old.is_dir():
            remove_unused(old)
    with tempfile.TemporaryDirectory(dir=home) as beside:
        build_site(Path(beside) / "site")
        (Path(beside) / "site").rename(folder)


def fingerprint() -> str:
    """Return a hash of the pages, the code, and the versions of programs that build the site."""
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
