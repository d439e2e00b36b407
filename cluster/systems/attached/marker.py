"""The file `attached.json` in a run's folder; it exists while the run has traces on the cluster."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cluster.protocol import Endpoint
from results.record.atomic import write_atomically
from results.record.reading import read_text

_Node = Annotated[str, Field(pattern=r"^n\d{1,9}$")]
_Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]+$")]


class Marker(BaseModel):
    """The content of `attached.json`.

    Attributes:
        file: The path of the cluster's file, for people only; no command is run from it.
        prefix: The prefix of the run's topics, groups and transactional ids.
        endpoints: Host and port of the brokers, by node.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    prefix: Annotated[str, Field(pattern=r"^logquake-[0-9a-f]{8}-$")]
    endpoints: dict[_Node, tuple[_Host, int]]

    @property
    def places(self) -> dict[str, Endpoint]:
        """The addresses of the brokers."""
        return {
            node: Endpoint(host=host, broker_port=port, controller_port=0)
            for node, (host, port) in self.endpoints.items()
        }


def write_marker(path: Path, marker: Marker) -> None:
    """Write `attached.json` of a run.

    Raises:
        StoreError: The file cannot be written.
    """
    write_atomically(path, marker.model_dump_json() + "\n")


def read_marker(path: Path) -> Marker | None:
    """Return the content of `attached.json`; None if it is missing or unreadable."""
    try:
        return Marker.model_validate_json(read_text(path))
    except (OSError, ValidationError, ValueError):
        return None
