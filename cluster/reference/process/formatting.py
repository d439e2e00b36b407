"""Format a node's log dir as Kafka's StorageTool does: `meta.properties`, and a cluster key.

Unless listeners are secured, Kafka's brokers trust every connection. This module is stricter: it
writes a cluster key, and nodes must show this key when they connect.
"""

import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import UUID

from cluster.files.checkpoints import properties
from cluster.reference.broker.boot import BootError
from cluster.reference.log.checkpoints import kafka_id
from cluster.reference.wire.peers import KEY_FILE, key_of

META = "meta.properties"
_SECRET_BYTES = 32
_SECRET = re.compile(rf"[0-9a-f]{{{2 * _SECRET_BYTES}}}")


def format_log_dirs(folders: Mapping[int, Path]) -> None:
    """Format the log dirs of one cluster's nodes.

    Args:
        folders: The log dirs to create, by node id.
    """
    # Ids only have to be different, so they need no seed.
    write_meta(folders, secrets.token_bytes)
    secret = secrets.token_hex(_SECRET_BYTES)
    for folder in folders.values():
        (folder / KEY_FILE).touch(mode=0o600, exist_ok=False)
        (folder / KEY_FILE).write_text(f"{secret}\n", encoding="ascii")


def write_meta(folders: Mapping[int, Path], draw: Callable[[int], bytes]) -> None:
    """Create the log dirs of one cluster's nodes, each with its `meta.properties`.

    Args:
        folders: The log dirs by node id.
        draw: Returns as many random bytes as requested, for ids.
    """
    cluster_id = _drawn_id(draw)
    for node, folder in folders.items():
        folder.mkdir(parents=True)
        text = meta_properties(node, cluster_id=cluster_id, directory_id=_drawn_id(draw))
        (folder / META).write_text(text, encoding="utf-8")


def cluster_key(log_dir: Path) -> bytes:
    """Return the key by which a node proves that it belongs to the cluster.

    Raises:
        BootError: The key file in the log dir is missing, unreadable or invalid.
        DamagedFileError: `meta.properties` cannot be read.
    """
    meta = properties((log_dir / META).read_text(encoding="utf-8"))
    try:
        secret = (log_dir / KEY_FILE).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as missing:
        raise BootError(
            f"{log_dir / KEY_FILE} cannot be read: copy this file from another node of the cluster"
        ) from missing
    if not _SECRET.fullmatch(secret):
        raise BootError(
            f"{log_dir / KEY_FILE} is damaged: copy this file from another node of the cluster"
        )
    return key_of(meta["cluster.id"], secret)


def meta_properties(node: int, *, cluster_id: str, directory_id: str) -> str:
    """Return the text of `meta.properties`, in version 1 of Kafka's format."""
    return f"cluster.id={cluster_id}\ndirectory.id={directory_id}\nnode.id={node}\nversion=1\n"


def _drawn_id(draw: Callable[[int], bytes]) -> str:
    """Return a random id as Kafka writes it."""
    while True:
        text = kafka_id(UUID(bytes=draw(16), version=4))
        if not text.startswith("-"):  # Kafka avoids ids that look like an option.
            return text
