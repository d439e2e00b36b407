"""Check by trials whether an ssh host can take part in a run. If not, report the reason."""

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster.hosts import shaper, sockets
from cluster.hosts.cuts import cut_rules, drop_marked
from cluster.hosts.ssh.connection import SshConnection
from cluster.hosts.ssh.file import SshHost
from cluster.protocol import ClusterError, UserError

OLDEST_PYTHON = (3, 10)
OLDEST_JAVA = 17
ENOUGH_BYTES = 512 << 20
"""The bytes that must be free: about 100 MB for Kafka and its libraries, about 100 MB for the files
of a default run, and some reserve."""
NFT = ("nft",)
SUDO = ("sudo", "-n")


def nft_of(host: SshHost) -> list[str]:
    """Return the command line that starts nft on a host, perhaps through sudo."""
    return [*(SUDO if host.sudo else ()), *NFT]


def examine_host(connection: SshConnection, others: Sequence[SshHost]) -> None:
    """Check that a host can take part in a run. The check changes nothing on the host.

    Args:
        connection: The connection to the host.
        others: All hosts of the file.

    Raises:
        UserError: The host does not have all that a run needs. The message contains the remedy.
    """
    host = connection.host
    seen = connection.call(
        "examine",
        {
            "folder": host.folder,
            "java": host.java,
            "nft": nft_of(host),
            "rules": drop_marked("logquake_trial")
            + cut_rules(
                "trial", {each.name: each.address for each in others}, table="logquake_trial"
            ),
            "listen": host.address,
        },
    )
    if tuple(seen["python"][:2]) < OLDEST_PYTHON:
        has, needed = (".".join(map(str, each)) for each in (seen["python"], OLDEST_PYTHON))
        raise UserError(f"{host.name} has Python {has}; Logquake's agent needs {needed} or later")
    _refuse_java(host, seen["java"])
    _refuse_folder(host, seen)
    if seen["address"]:
        raise UserError(
            f"{host.name} does not have the address {host.address} ({seen['address']}): in the"
            f" hosts file, write the address at which the other hosts reach {host.name}"
        )
    _refuse_nft(host, seen["nft"])
    here = [each.name for each in others if each.address == seen["harness"]]
    if here:
        raise UserError(
            f"{host.name} receives Logquake's connections from {seen['harness']}, the address of"
            f" {here[0]}: a cut of the links of {here[0]} would also cut off Logquake; run"
            " Logquake on another machine"
        )


def why_not_shape(hosts: Sequence[SshHost]) -> str:
    """Try whether links between ssh hosts can be shaped; return the reason if they cannot.

    The result is an empty string if the links can be shaped.

    This check skips hosts that cannot be reached; another check reports these hosts.
    """
    program = Path(shaper.__file__).read_text(encoding="utf-8")
    return _why_not_anywhere(
        hosts,
        "links cannot be degraded",
        lambda host: {
            "program": program,
            "flag": shaper.TRIAL,
            "addresses": [each.address for each in hosts if each is not host],
        },
    )


def why_not_reset(hosts: Sequence[SshHost]) -> str:
    """Try whether connections between ssh hosts can be reset; return the reason if they cannot.

    The result is an empty string if the connections can be reset.
    """
    program = Path(sockets.__file__).read_text(encoding="utf-8")
    order = {"program": program, "flag": "", "addresses": ()}
    return _why_not_anywhere(hosts, "connections cannot be reset", lambda _: order)


def _why_not_anywhere(
    hosts: Sequence[SshHost], what: str, order: Callable[[SshHost], Mapping[str, object]]
) -> str:
    with ThreadPoolExecutor(max(1, len(hosts))) as pool:
        refused = pool.map(lambda host: _refused(host, what, order(host)), hosts)
        return next((sentence for sentence in refused if sentence), "")


def _refused(host: SshHost, what: str, order: Mapping[str, object]) -> str:
    if host.sudo:
        return f"on {host.name} only nft may be run as root; log in as root"
    connection = SshConnection(host)
    try:
        refused = connection.call("try_program", {**order})["refused"]
    except ClusterError:
        return ""
    finally:
        connection.close()
    return f"on {host.name} {what} ({refused})" if refused else ""


def _refuse_java(host: SshHost, said: str | None) -> None:
    remedy = (
        f"install Java {OLDEST_JAVA} or later on the host, or write its path into the hosts file:"
        ' java = "/path/to/java"'
    )
    if said is None:
        raise UserError(f"{host.name} has no Java ({host.java} does not start): {remedy}")
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    if match is None:
        raise UserError(f"{host.java} on {host.name} does not print its version: {remedy}")
    if int(match[1]) < OLDEST_JAVA:
        raise UserError(f"{host.name} has Java {match[1]}, which is too old: {remedy}")


def _refuse_folder(host: SshHost, seen: dict[str, object]) -> None:
    if not seen["writable"]:
        raise UserError(
            f"{host.user} cannot create {host.folder} on {host.name}, because {seen['existing']}"
            " is not writable; name another folder in the hosts file"
        )
    free = int(str(seen["free"]))
    if free < ENOUGH_BYTES:
        raise UserError(
            f"the disk of {host.folder} on {host.name} is full ({free >> 20} MiB free, but"
            f" {ENOUGH_BYTES >> 20} MiB are needed); free some space, or name another folder"
        )


def _refuse_nft(host: SshHost, refused: str) -> None:
    if not refused:
        return
    if "sudo" in refused and "nft:" not in refused:
        raise UserError(
            f"{host.user} may not run nft as root on {host.name} ({refused}); allow"
            f" '{host.user} ALL=(root) NOPASSWD: /usr/sbin/nft' in its sudoers"
        )
    raise UserError(
        f"the network of {host.name} cannot be cut: nft does not work there ({refused}); type on"
        " that host: apt-get install nftables"
    )
