"""A run's objects on the Docker daemon: known by their labels, and never by their names."""

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, NotFound

from cluster.hosts.docker.daemon import connected
from results.record.clock import wait_until
from results.record.paths import RunPaths

RUN_LABEL = "logquake.run"
STORE_LABEL = "logquake.store"
NODE_LABEL = "logquake.node"
GONE_TIMEOUT_S = 30.0
AT_ONCE = 8
BEING_REMOVED = 409
"""Status of an answer: somebody else removes it right now (Engine API, ContainerDelete)."""


def labels_of(root: Path) -> dict[str, str]:
    """Return what marks everything of a run.

    Args:
        root: The run's folder.
    """
    folder = root.resolve()  # By whatever way one comes to it.
    return {RUN_LABEL: RunPaths(folder).run_id, STORE_LABEL: str(folder.parent.parent)}


def prefix_of(root: Path) -> str:
    """Return how names of a run's objects begin; runs of two stores do not share it."""
    folder = root.resolve()
    readable = re.sub(r"[^A-Za-z0-9_.-]", "-", folder.name)
    return f"logquake-{readable}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:6]}"


def container_of(root: Path, node: str) -> str:
    """Return the name of the container that is a node as long as its run lives."""
    return f"{prefix_of(root)}-{node}"


def heal_docker(root: Path) -> list[str]:
    """Remove every container and network of a dead run, and nothing else. Idempotent.

    What containers wrote lies in the run's folder, and stays.

    Args:
        root: The run's folder.

    Returns:
        A sentence for each object that was removed.

    Raises:
        UserError: The daemon does not answer.
        ClusterError: It refuses.
    """
    with connected() as client:
        return remove_objects(client, root)


def remove_objects(client: docker.DockerClient, root: Path) -> list[str]:
    """Remove every container and network of a run, and wait until they are gone."""
    said: list[str] = []
    while found := containers_of(client, root):
        # With the anonymous volumes that an image declares; a paused one is killed as well.
        ways = [partial(container.remove, force=True, v=True) for container in found]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            gone = list(pool.map(removed, ways))
        said += [
            f"removed the container {container.name}"
            for container, done in zip(found, gone, strict=True)
            if done
        ]
        _wait_gone([container.id for container in found], client)
    said += [
        f"removed the network {network.name}"
        for network in networks_of(client, root)
        if removed(network.remove)
    ]
    return said


def containers_of(client: docker.DockerClient, root: Path) -> list[Any]:
    """Return a run's containers, ended ones included."""
    listed = client.containers.list(
        all=True, filters={"label": _filters(root)}, ignore_removed=True
    )
    return list(listed)


def networks_of(client: docker.DockerClient, root: Path) -> list[Any]:
    """Return a run's networks."""
    return list(client.networks.list(filters={"label": _filters(root)}))


def traces_of(root: Path) -> Mapping[str, str]:
    """Return what of a run is on the daemon now, for the audit."""
    with connected() as client:
        found = {f"container {each.name}": each.status for each in containers_of(client, root)}
        return found | {f"network {each.name}": "" for each in networks_of(client, root)}


def _filters(root: Path) -> list[str]:
    return [f"{label}={value}" for label, value in labels_of(root).items()]


def removed(remove: Callable[[], object]) -> bool:
    """Remove an object; False if somebody else has done so, or is about to."""
    try:
        remove()
    except NotFound:
        return False
    except APIError as refused:
        if refused.status_code != BEING_REMOVED:
            raise
        return False
    return True


def _wait_gone(ids: list[str], client: docker.DockerClient) -> None:
    def none_is_left() -> bool:
        for each in list(ids):
            with suppress(NotFound):
                client.api.inspect_container(each)
                return False
            ids.remove(each)
        return True

    wait_until(none_is_left, timeout_s=GONE_TIMEOUT_S, what="the end of the run's containers")
