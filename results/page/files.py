"""The files of a run, as links of its page."""

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
    """A file of the run: how it is called, and how large it is; no link where it cannot be."""

    name: str
    href: str | None
    size_bytes: int


def file_links(paths: RunPaths, base: Path) -> list[FileLink]:
    """Return the run's files; links only for a page inside of the run's folder.

    Args:
        paths: The run.
        base: The folder of the page.
    """
    inside = base == paths.root.absolute()
    links: list[FileLink] = []
    for folder, folders, names in os.walk(paths.root):
        folders[:] = sorted(each for each in folders if each not in _UNLISTED)
        for name in sorted(names):
            path = Path(folder) / name
            if name in _UNLISTED or name.startswith(".") or path == paths.report:
                continue
            with suppress(OSError):  # A run under way removes files.
                links.append(_link(path, path.relative_to(paths.root), inside=inside))
            if len(links) >= MAX_FILES:
                return links
    return links


def link_to(name: str, *, inside: bool) -> str | None:
    """Return where a link to a file of the run leads, None where there can be none."""
    # A name that is no UTF-8 cannot be linked to; a leading "./" keeps "a:b" from being a scheme.
    return f"./{name}" if inside and inert(name) == name else None


def _link(path: Path, relative: Path, *, inside: bool) -> FileLink:
    name = relative.as_posix()
    size = path.lstat().st_size
    return FileLink(name=name, href=link_to(name, inside=inside), size_bytes=size)
