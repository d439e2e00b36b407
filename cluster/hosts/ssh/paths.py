"""Translate paths of this machine to paths in a run's folder on an ssh host. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from cluster.files.properties import escaped

SOFTWARE = "software"
"""The name of the software folder in a run's folder on a host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abroad:
    """The paths of a run's files on a host.

    Attributes:
        here: The run's folder on this machine.
        there: The run's folder on the host.
        software: For each path on this machine, the name in the host's software folder.
    """

    here: Path
    there: PurePosixPath
    software: Mapping[Path, str] = field(default_factory=dict)

    def path(self, local: Path) -> PurePosixPath:
        """Return the path on the host of a file of the run's folder or of the software."""
        if local in self.software:
            return self.there / SOFTWARE / self.software[local]
        try:
            return self.there / local.relative_to(self.here).as_posix()
        except ValueError:
            return PurePosixPath(local)

    def text(self, text: str) -> str:
        """Return a text in which the host's paths replace the paths of this machine.

        Both plain paths and paths with the escapes of Java's properties files are replaced.
        """
        places = {str(local): str(self.path(local)) for local in (*self.software, self.here)}
        places |= {escaped(local): escaped(there) for local, there in places.items()}
        longest_first = sorted(places, key=len, reverse=True)
        # A match must be a whole path: /run is neither in /run2 nor in /my/run.
        pattern = f"(?<![\\w.-])(?:{'|'.join(map(re.escape, longest_first))})(?![\\w.-])"
        return re.sub(pattern, lambda found: places[found[0]], text)


def named(software: Mapping[Path, str], more: tuple[Path, ...]) -> dict[Path, str]:
    """Return unique names for software files; files with equal names get a number."""
    names = dict(software)
    for path in more:
        if path not in names:
            taken = path.name in names.values()
            names[path] = f"{len(names)}-{path.name}" if taken else path.name
    return names
