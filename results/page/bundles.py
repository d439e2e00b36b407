"""The bundle of a run as its page offers it: a link if it is there, else how to make it."""

from dataclasses import dataclass
from pathlib import Path

from results.export.bundle import bundle_name
from results.page.files import link_to
from results.record.paths import RunPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleLink:
    """What a reader needs to judge the run elsewhere.

    Attributes:
        name: Of the file.
        href: Where it lies; None: it is to be made first.
        size_bytes: Of the file; 0 if it is not there.
        write, read: The commands that make it, and that take it in and judge it.
    """

    name: str
    href: str | None
    size_bytes: int
    write: str
    read: str


def bundle_link(paths: RunPaths, command: str, *, base: Path) -> BundleLink:
    """Return the bundle of a run.

    Args:
        paths: The run.
        command: How the run is called on the command line, quoted for a shell.
        base: The folder of the page.
    """
    name = bundle_name(paths)
    file = paths.root / name
    there = file.is_file() and not file.is_symlink()
    return BundleLink(
        name=name,
        href=link_to(name, inside=there and base == paths.root.absolute()),
        size_bytes=file.stat().st_size if there else 0,
        write=f"logquake export {command} --as bundle",
        read=f"logquake import {name}\nlogquake check {paths.run_id}",
    )
