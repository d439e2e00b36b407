"""`logquake doctor`: show what works on this machine, and a remedy for what does not."""

import os
import shutil
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cluster.hosts.choose import choose_hosts
from cluster.hosts.examine import INSTALL, Finding, examine
from cluster.hosts.namespace import search_path
from cluster.java import find_java
from cluster.protocol import UserError
from cluster.systems.registry import releases_at_hand
from results.wording.amounts import size

ENOUGH_DISK_BYTES = 2 << 30
LAB_PROGRAMS = {
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "sudo": "sudo",
    "pkill": "procps",
}
"""The programs that tests need to start ssh machines, and the Debian package of each program."""


def examine_machine(store: Path) -> list[Finding]:
    """Check what a run needs: hosts, faults, Java, Spark, cached Kafka versions, disk space."""
    here = [*examine(), _hosts(), _java(), _spark(), _cache(), _disk(store)]
    return [*here, ssh_lab(), browser()]


def print_findings(findings: list[Finding], console: Console) -> None:
    """Print one line for each check. If something does not work, the line names the remedy."""
    table = Table.grid(padding=(0, 2))
    for finding in findings:
        mark = Text("works", "green") if finding.works else Text("no", "yellow")
        table.add_row(mark, Text(finding.what), Text(finding.detail, style="dim"))
        if not finding.works and finding.remedy:
            table.add_row("", "", Text(f"remedy: {finding.remedy}"))
    console.print(table)


def ssh_lab() -> Finding:
    """Report whether tests can start ssh machines here. Runs on ssh hosts do not need this."""
    return _for_tests("sshd", LAB_PROGRAMS)


def browser() -> Finding:
    """Report whether tests can open pages in a browser.

    Runs write their pages without a browser.
    """
    return _for_tests("chromium", {"chromium": "chromium"})


def _for_tests(what: str, packages: Mapping[str, str]) -> Finding:
    """Report whether some programs are installed; only tests need these programs.

    Args:
        what: The main program.
        packages: The Debian package of each program.
    """
    found = {name: shutil.which(name, path=search_path()) for name in packages}
    missing = [name for name, path in found.items() if not path]
    needed = " ".join(dict.fromkeys(packages[name] for name in missing))
    return Finding(
        what=f"{what} (only for tests)",
        works=not missing,
        detail=f"without {', '.join(missing)}" if missing else f"{found[what]}",
        remedy=f"{INSTALL} {needed}; runs do not need it" if missing else "",
    )


def _hosts() -> Finding:
    choice = choose_hosts("auto")
    return Finding(
        what="--hosts auto",
        works=choice.kind == "namespace",
        detail=f"takes {choice.kind}: {choice.why}",
        remedy=""
        if choice.kind == "namespace"
        else "without namespaces, only --system reference supports network partitions",
    )


def _java() -> Finding:
    try:
        java = find_java()
    except UserError as missing:
        remedy = f"{missing}; --system reference needs no Java"
        return Finding(what="Java for brokers", works=False, detail="", remedy=remedy)
    detail = f"Java {java.major} at {java.path}"
    return Finding(what="Java for brokers", works=True, detail=detail, remedy="")


def _spark() -> Finding:
    has_java = _java().works
    return Finding(
        what="Spark",
        works=has_java,
        detail=f"pyspark {version('pyspark')}" + ("" if has_java else ", which needs Java"),
        remedy="" if has_java else "install Java, or judge with: logquake check --engine local",
    )


def _cache() -> Finding:
    what = "Kafka at hand"
    try:
        versions = releases_at_hand()
    except (OSError, UserError) as refused:  # HOME is missing, or belongs to another user.
        remedy = "set XDG_CACHE_HOME to a folder that you can write to"
        return Finding(what=what, works=False, detail=str(refused), remedy=remedy)
    return Finding(
        what=what,
        works=bool(versions),
        detail=", ".join(versions) or "none yet",
        remedy="" if versions else "the first run downloads it from Maven Central",
    )


def _disk(store: Path) -> Finding:
    folder = store.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    writable = os.access(folder, os.W_OK)
    return Finding(
        what=f"store {store}",
        works=free > ENOUGH_DISK_BYTES and writable,
        detail=f"{size(free)} free at {folder}" + ("" if writable else ", not writable"),
        remedy="name a folder that has space and that you can write to: --store DIR",
    )
