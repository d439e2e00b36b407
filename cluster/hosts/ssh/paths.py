"""Paths of this machine, and where the same lies in a run's folder on an ssh host. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from cluster.files.properties import escaped

SOFTWARE = "software"
"""The folder of software, in a run's folder on a host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abroad:
    """What lies where on a host.

    Attributes:
        here: The run's folder on this machine.
        there: On the host.
        software: By path on this machine, names in the folder of software there.
    """

    here: Path
    there: PurePosixPath
    software: Mapping[Path, str] = field(default_factory=dict)

    def path(self, local: Path) -> PurePosixPath:
        """Return where a file of the run's folder, or of the software, lies on the host."""
        if local in self.software:
            return self.there / SOFTWARE / self.software[local]
        try:
            return self.there / local.relative_to(self.here).as_posix()
        except ValueError:
            return PurePosixPath(local)

    def text(self, text: str) -> str:
        """Return a text with all such paths in it turned into the host's.

        They are found as they are, and as Java's properties files write them.
        """
        places = {str(local): str(self.path(local)) for local in (*self.software, self.here)}
        places |= {escaped(local): escaped(there) for local, there in places.items()}
        longest_first = sorted(places, key=len, reverse=True)
        # No further letter of a name stands around a path: /run is not in /run2, nor in /my/run.
        pattern = f"(?<![\\w.-])(?:{'|'.join(map(re.escape, longest_first))})(?![\\w.-])"
        return re.sub(pattern, lambda found: places[found[0]], text)


def named(software: Mapping[Path, str], more: tuple[Path, ...]) -> dict[Path, str]:
    """Return names for files of software: their own, with a number where two have the same."""
    names = dict(software)
    for path in more:
        if path not in names:
            taken = path.name in names.values()
            names[path] = f"{len(names)}-{path.name}" if taken else path.name
    return names
