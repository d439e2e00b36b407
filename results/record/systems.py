"""The names of systems under test, in the forms that a plan's `system` accepts.

| Form | Meaning |
|---|---|
| `kafka:4.3.1`, `kafka:3.9.1:zookeeper` | a release on Maven Central |
| `kafka:4.3.1+A.jar,B.jar` | a release with the user's jars in front |
| `kafka:/path/to/a/kafka` | an unpacked distribution, or a build tree |
| `reference` | Logquake's own reference cluster |
| `attached:FILE.toml` | a cluster that is already running |
| `command:FILE.toml` | any broker that a command line starts |

The names `kafka...` and `reference` may end with the mode of the metadata, such as `:combined`.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from results.record.terms import KNOWN_MODES, Mode

NEWEST_KAFKA = (4, 3, 1)
"""The newest known version. A newer Kafka is treated like this version."""
OLDEST_KAFKA = (0, 11, 0)
FIRST_KRAFT = (3, 3, 0)
"""First version with KRaft for production (KIP-833)."""
FIRST_WITHOUT_ZOOKEEPER = (4, 0, 0)
VERSION = r"[0-9][0-9A-Za-z.+_-]{0,60}"
"""Pattern of a build's version, as in a plan's `version`: `4.4.0-SNAPSHOT`."""
MODES = ", ".join(KNOWN_MODES)
"""The modes of the metadata with which the name of a system may end."""
_MODE = rf"(?::(?P<mode>{'|'.join(KNOWN_MODES)}))?"
_FORMS = (
    re.compile(r"kafka:(?P<version>\d+\.\d+\.\d+(?:\.\d+)?)(?:\+(?P<jars>[^:]+))?" + _MODE),
    re.compile(r"kafka:(?P<path>[^:]*/[^:]*?|\.{1,2}|~)" + _MODE),
    re.compile(r"reference(?::(?P<mode>combined|controllers))?"),
    re.compile(r"(?:attached|command):(?P<path>.+)"),
)
FORMS = (
    "name a version, such as kafka:4.3.1, optionally with its metadata mode, such as"
    f" kafka:3.9.1:{KNOWN_MODES[0]}. Or name the folder of your own Kafka, such as"
    " kafka:/path/to/a/kafka, or add your own jars, such as kafka:4.3.1+A.jar,B.jar (paths"
    " without a colon). Or name reference, attached:FILE.toml or command:FILE.toml"
)


class SystemKind(StrEnum):
    """The kind of a system."""

    KAFKA = "kafka"
    REFERENCE = "reference"
    ATTACHED = "attached"
    COMMAND = "command"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemName:
    """The parts of a system's name.

    Attributes:
        kind: Kind of the system.
        version: Version of a release; empty if the version is known only from jars or a file.
        path: Folder of a Kafka build of the user, or file of an attached cluster or a command.
        jars: Jars that come before the release's own jars on the class path.
        mode: Where the metadata are kept; None for the version's usual mode.
    """

    kind: SystemKind
    version: str = ""
    path: str = ""
    jars: tuple[str, ...] = ()
    mode: Mode | None = None

    @property
    def is_yours(self) -> bool:
        """Whether the name refers to files of the user. Another person's plan must not do that."""
        return bool(self.path or self.jars)

    @property
    def is_strange(self) -> bool:
        """Whether it is unknown to Logquake where the system keeps its metadata."""
        return self.kind in {SystemKind.ATTACHED, SystemKind.COMMAND}

    @property
    def text(self) -> str:
        """The name as text, in the form of a plan."""
        what = self.version + (f"+{','.join(self.jars)}" if self.jars else "") or self.path
        return ":".join(filter(None, (self.kind.value, what, self.mode.value if self.mode else "")))


@lru_cache
def system_named(text: str) -> SystemName:
    """Parse the name of a system.

    Raises:
        ValueError: The text has none of the known forms.
    """
    match = next(filter(None, (form.fullmatch(text) for form in _FORMS)), None)
    if match is None:
        raise ValueError(FORMS)
    found = match.groupdict()
    mode = found.get("mode")
    return SystemName(
        kind=SystemKind(text.partition(":")[0]),
        version=found.get("version") or "",
        path=found.get("path") or "",
        jars=tuple(filter(None, (found.get("jars") or "").split(","))),
        mode=Mode(mode) if mode else None,
    )


def known_numbers(version: str) -> tuple[int, ...]:
    """Return the version as numbers; a version that is too new counts as the newest known version.

    For example, `4.4.0-SNAPSHOT` is treated as (4, 3, 1), the newest known version.
    """
    told = re.match(r"\d+(?:\.\d+)*", version)
    numbers = tuple(int(each) for each in told[0].split(".")) if told else NEWEST_KAFKA
    return min(numbers, NEWEST_KAFKA)


def mode_refusal(version: str, mode: Mode) -> str | None:
    """Return one sentence: why a Kafka version cannot run in a mode; None if it can."""
    numbers = known_numbers(version)
    if numbers < OLDEST_KAFKA:
        return f"Kafka {version} is not supported: use 0.11.0.0 or later"
    if mode is Mode.ZOOKEEPER and numbers >= FIRST_WITHOUT_ZOOKEEPER:
        return f"Kafka {version} does not support ZooKeeper: use combined or controllers"
    if mode is not Mode.ZOOKEEPER and numbers < FIRST_KRAFT:
        return f"Logquake runs Kafka {version} only with ZooKeeper: for KRaft, use 3.3 or later"
    return None
