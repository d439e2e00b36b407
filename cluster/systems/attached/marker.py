"""What a run has on an attached cluster, in its folder for as long as it has something there."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cluster.protocol import Endpoint
from results.record.atomic import write_atomically
from results.record.reading import read_text

_Node = Annotated[str, Field(pattern=r"^n\d{1,9}$")]
_Host = Annotated[str, Field(pattern=r"^[A-Za-z0-9._:-]+$")]


class Marker(BaseModel):
    """What `attached.json` holds.

    Attributes:
        file: The cluster's file, for people: nothing is run from it.
        prefix: Of the run's topics, groups and transactional ids.
        endpoints: Where the brokers listened: host and port by node.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    prefix: Annotated[str, Field(pattern=r"^logquake-[0-9a-f]{8}-$")]
    endpoints: dict[_Node, tuple[_Host, int]]

    @property
    def places(self) -> dict[str, Endpoint]:
        """Where the brokers listened."""
        return {
            node: Endpoint(host=host, broker_port=port, controller_port=0)
            for node, (host, port) in self.endpoints.items()
        }


def write_marker(path: Path, marker: Marker) -> None:
    """Write `attached.json` of a run.

    Raises:
        StoreError: It cannot be written.
    """
    write_atomically(path, marker.model_dump_json() + "\n")


def read_marker(path: Path) -> Marker | None:
    """Return what a run has on an attached cluster; None: nothing, or nobody can tell."""
    try:
        return Marker.model_validate_json(read_text(path))
    except (OSError, ValidationError, ValueError):
        return None
