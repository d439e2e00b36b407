"""The list of a run's files on its page."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from results.record.paths import RunPaths
from results.wording.inert import inert

MAX_FILES = 200
_UNLISTED = {"lock", "live"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLink:
    """A file of the run: its name, its size, and a link if the page can have one."""

    name: str
    href: str | None
    size_bytes: int


def file_links(paths: RunPaths, base: Path) -> list[FileLink]:
    """Return the run's files; they have links only if the page is in the run's folder.

    Args:
        paths: The run.
        base: Folder of the page.
    """
    inside = base == paths.root.absolute()
    links: list[FileLink] = []
    for folder, folders, names in os.walk(paths.root):
        folders[:] = sorted(each for each in folders if each not in _UNLISTED)
        for name in sorted(names):
            path = Path(folder) / name
            if name in _UNLISTED or name.startswith(".") or path == paths.report:
                continue
            with suppress(OSError):  # A run in progress removes files.
                links.append(_link(path, path.relative_to(paths.root), inside=inside))
            if len(links) >= MAX_FILES:
                return links
    return links


def link_to(name: str, *, inside: bool) -> str | None:
    """Return the relative link to a file of the run, or None if the file cannot be linked."""
    # A name that is not UTF-8 cannot be linked. A leading "./" prevents "a:b" as a URL scheme.
    return f"./{name}" if inside and inert(name) == name else None


def _link(path: Path, relative: Path, *, inside: bool) -> FileLink:
    name = relative.as_posix()
    size = path.lstat().st_size
    return FileLink(name=name, href=link_to(name, inside=inside), size_bytes=size)
