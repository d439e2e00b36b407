"""Formats a node's log dir, as Kafka's StorageTool does: `meta.properties`, and nothing else."""

import secrets
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

from cluster.reference.log.checkpoints import kafka_id

META = "meta.properties"


def random_id() -> str:
    """Return an id as Kafka writes it; ids only have to differ, so they need no seed."""
    while True:
        text = kafka_id(UUID(bytes=secrets.token_bytes(16)))
        if not text.startswith("-"):  # Kafka never makes one that looks like an option.
            return text


def format_log_dirs(folders: Mapping[int, Path]) -> None:
    """Make the log dirs of one cluster's nodes.

    Args:
        folders: By node id; they are made.
    """
    cluster_id = random_id()
    for node, folder in folders.items():
        folder.mkdir(parents=True)
        text = meta_properties(node, cluster_id=cluster_id, directory_id=random_id())
        (folder / META).write_text(text, encoding="utf-8")


def meta_properties(node: int, *, cluster_id: str, directory_id: str) -> str:
    """Return `meta.properties` in Kafka's version 1."""
    return f"cluster.id={cluster_id}\ndirectory.id={directory_id}\nnode.id={node}\nversion=1\n"
