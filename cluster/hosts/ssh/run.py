"""What a run is called on its ssh hosts, written down before the first of them is touched."""

import hashlib
import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cluster.hosts.ssh.examine import SUDO, nft_of
from cluster.hosts.ssh.file import SshHost
from results.record.reading import read_bytes

FILE = "ssh.json"
"""Beside `RunPaths.processes`, as long as something of the run may be on its hosts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshRun:
    """A run, as its hosts know it.

    Attributes:
        run: Its id there: 16 hexadecimal digits.
        hosts: Where its nodes are, by node.
    """

    run: str
    hosts: dict[str, SshHost]

    @property
    def table(self) -> str:
        """The run's nft table on each host."""
        return f"logquake_{self.run[:8]}"

    def folder(self, host: SshHost) -> str:
        """Return the run's folder on a host."""
        return f"{host.folder.rstrip('/')}/{self.run}"

    def order(self, host: SshHost) -> dict[str, object]:
        """Return what the programs on a host need to know of the run."""
        return {
            "folder": self.folder(host),
            "id": self.run,
            "table": self.table,
            "nft": nft_of(host),
            "umount": [*(SUDO if host.sudo else ()), "umount"],
        }

    def note(self, file: Path) -> None:
        """Write it down."""
        hosts = {node: asdict(host) for node, host in self.hosts.items()}
        file.write_text(json.dumps({"run": self.run, "hosts": hosts}, indent=1), encoding="utf-8")


def id_of(root: Path) -> str:
    """Return an id that no other run has on any host.

    It is made of where the run is, so that whoever looks at its hosts before it began, or after all
    of it was removed, looks for the same.

    Args:
        root: The run's folder: the only one of this machine at its path.
    """
    return hashlib.sha256(os.fsencode(f"{socket.gethostname()}:{root.resolve()}")).hexdigest()[:16]


class _Noted(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    run: str = Field(pattern=r"^[0-9a-f]{16}$")
    hosts: dict[str, SshHost]


def noted_run(file: Path) -> SshRun | None:
    """Return what was noted; None if there is nothing, or it was cut off before any host was met.

    Args:
        file: As `FILE` says.

    Raises:
        UnsafeFileError: It is no regular file.
    """
    try:
        noted = _Noted.model_validate_json(read_bytes(file))
    except (FileNotFoundError, ValidationError):
        return None
    return SshRun(run=noted.run, hosts=noted.hosts)
