"""For a run's page: the link to the run's bundle, or the command that makes the bundle."""

from dataclasses import dataclass
from pathlib import Path

from results.export.bundle import bundle_name
from results.page.files import link_to
from results.record.paths import RunPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleLink:
    """The file and commands that a reader needs to judge the run on another machine.

    Attributes:
        name: Name of the bundle file.
        href: Link to the file; None if the bundle does not exist yet.
        size_bytes: Size of the file; 0 if it does not exist.
        write, read: The command that makes the bundle, and the commands that import and judge it.
    """

    name: str
    href: str | None
    size_bytes: int
    write: str
    read: str


def bundle_link(paths: RunPaths, command: str, *, base: Path) -> BundleLink:
    """Return the link and commands for a run's bundle.

    Args:
        paths: The run.
        command: The run's name on the command line, quoted for a shell.
        base: Folder of the page.
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
