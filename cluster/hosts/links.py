"""With the command `ip`, create and remove the hub's bridge and the bridge's links to nodes."""

import socket
import subprocess
from collections.abc import Iterable

from cluster.hosts.machine import END_TIMEOUT_S
from cluster.protocol import UserError
from results.record.clock import wait_until

BRIDGE = "lqhub"
NETWORK = "10.81.0"
HUB_ADDRESS = f"{NETWORK}.254"


def make_bridge() -> None:
    """Create the bridge in the hub, with the hub's address."""
    _ip(
        [
            "link set lo up",
            f"link add {BRIDGE} type bridge",
            f"address add {HUB_ADDRESS}/24 dev {BRIDGE}",
            f"link set {BRIDGE} up",
        ]
    )


def make_links(pids: Iterable[int]) -> None:
    """Connect the bridge to the network namespace of each process.

    In the namespace, the end of the link has the name `eth0`.
    """
    commands = []
    for number, pid in enumerate(pids, start=1):
        commands += [
            f"link add lq{number} type veth peer name eth0 netns {pid}",
            f"link set lq{number} master {BRIDGE} up",
        ]
    _ip(commands)


def node_commands(address: str) -> str:
    """Return the `ip -batch` commands for a node's namespace, to be run after the link exists."""
    return _batch(
        [
            "link set lo up",
            f"address add {address}/24 dev eth0",
            "link set eth0 up",
        ]
    )


def _ip(commands: Iterable[str]) -> None:
    """Run `ip` commands in the hub.

    Raises:
        UserError: The command `ip` is missing or failed.
    """
    said = _ip_errors(commands)
    if said:
        raise UserError(f"cannot create the network of the nodes: {said}")


def _ip_errors(commands: Iterable[str], *options: str) -> str:
    """Run `ip` commands in the hub, and return the error output."""
    argv = ["ip", *options, "-batch", "-"]
    try:
        done = subprocess.run(  # noqa: S603 - fixed words and our own numbers
            argv, input=_batch(commands), capture_output=True, text=True, check=False, timeout=20
        )
    except FileNotFoundError as error:
        raise UserError("the command ip is missing; type: apt-get install iproute2") from error
    return done.stderr.strip() if done.returncode else ""


def remove_links() -> None:
    """Remove the bridge and the hub's ends of the veth pairs that still exist."""
    # When a node's namespace vanishes, its end removes our end. That may happen now, so use -force.
    _ip_errors([f"link delete {name}" for name in _our_links()], "-force")
    wait_until(
        lambda: not _our_links(), timeout_s=END_TIMEOUT_S, what="the end of the bridge and links"
    )


def _our_links() -> list[str]:
    return [name for _, name in socket.if_nameindex() if name.startswith("lq")]


def _batch(commands: Iterable[str]) -> str:
    return "".join(f"{command}\n" for command in commands)
