"""The names of systems, as a plan's `system` has them. Pure.

| Form | What it is |
|---|---|
| `kafka:4.3.1`, `kafka:3.9.1:zookeeper` | a release on Maven Central |
| `kafka:4.3.1+A.jar,B.jar` | the same with jars of yours in front |
| `kafka:/path/to/a/kafka` | an unpacked distribution, or a build tree |
| `reference` | Logquake's own |
| `attached:FILE.toml` | a cluster that runs already |
| `command:FILE.toml` | any broker that a command line starts |

`kafka` and `reference` may end with who keeps the metadata: `:combined`.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from results.record.terms import KNOWN_MODES, Mode

NEWEST_KAFKA = (4, 3, 1)
"""A newer one is taken for this one."""
OLDEST_KAFKA = (0, 11, 0)
FIRST_KRAFT = (3, 3, 0)
"""KRaft is meant for production since then (KIP-833)."""
FIRST_WITHOUT_ZOOKEEPER = (4, 0, 0)
VERSION = r"[0-9][0-9A-Za-z.+_-]{0,60}"
"""What a build may call its version, as `version` of a plan: `4.4.0-SNAPSHOT`."""
MODES = ", ".join(KNOWN_MODES)
"""Who may keep the metadata, as a system's name ends."""
_MODE = rf"(?::(?P<mode>{'|'.join(KNOWN_MODES)}))?"
_FORMS = (
    re.compile(r"kafka:(?P<version>\d+\.\d+\.\d+(?:\.\d+)?)(?:\+(?P<jars>[^:]+))?" + _MODE),
    re.compile(r"kafka:(?P<path>[^:]*/[^:]*?|\.{1,2}|~)" + _MODE),
    re.compile(r"reference(?::(?P<mode>combined|controllers))?"),
    re.compile(r"(?:attached|command):(?P<path>.+)"),
)
FORMS = (
    "name a version, as kafka:4.3.1, and if you like who keeps the metadata, as"
    f" kafka:3.9.1:{KNOWN_MODES[0]}; a folder with a Kafka of yours, as kafka:/path/to/a/kafka, or"
    " jars of yours in front, as kafka:4.3.1+A.jar,B.jar (paths without a colon); reference;"
    " attached:FILE.toml, or command:FILE.toml"
)


class SystemKind(StrEnum):
    """What a system is."""

    KAFKA = "kafka"
    REFERENCE = "reference"
    ATTACHED = "attached"
    COMMAND = "command"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemName:
    """A system's name, taken apart.

    Attributes:
        kind: What it is.
        version: Of a release; empty: the jars, or a file, tell.
        path: Of a Kafka of yours its folder, of an attached cluster or a command its file.
        jars: Files that stand before a release's own.
        mode: Who keeps the metadata; None: as usual.
    """

    kind: SystemKind
    version: str = ""
    path: str = ""
    jars: tuple[str, ...] = ()
    mode: Mode | None = None

    @property
    def is_yours(self) -> bool:
        """Whether its name leads to files of the user's, which a stranger's plan must not."""
        return bool(self.path or self.jars)

    @property
    def is_strange(self) -> bool:
        """Whether nobody here knows who keeps its metadata, or how."""
        return self.kind in {SystemKind.ATTACHED, SystemKind.COMMAND}

    @property
    def text(self) -> str:
        """As a plan has it."""
        what = self.version + (f"+{','.join(self.jars)}" if self.jars else "") or self.path
        return ":".join(filter(None, (self.kind.value, what, self.mode.value if self.mode else "")))


@lru_cache
def system_named(text: str) -> SystemName:
    """Take a name apart.

    Raises:
        ValueError: It has none of the forms.
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
    """Return the numbers by which a version's behaviour is known: (4, 3, 1) of `4.4.0-SNAPSHOT`."""
    told = re.match(r"\d+(?:\.\d+)*", version)
    numbers = tuple(int(each) for each in told[0].split(".")) if told else NEWEST_KAFKA
    return min(numbers, NEWEST_KAFKA)


def mode_refusal(version: str, mode: Mode) -> str | None:
    """Return why a version cannot be run in a mode, in one sentence; None if it can."""
    numbers = known_numbers(version)
    if numbers < OLDEST_KAFKA:
        return f"Kafka {version} cannot be run: the oldest is 0.11.0.0"
    if mode is Mode.ZOOKEEPER and numbers >= FIRST_WITHOUT_ZOOKEEPER:
        return f"Kafka {version} does not know ZooKeeper: take combined or controllers"
    if mode is not Mode.ZOOKEEPER and numbers < FIRST_KRAFT:
        return f"Kafka {version} is run with ZooKeeper only: KRaft is run from 3.3 on"
    return None
