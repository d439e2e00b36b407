"""Hosts whose processes and files are this machine's own."""

import signal
from collections.abc import Mapping
from pathlib import Path

from cluster.hosts.audit import local_traces
from cluster.hosts.disk import LocalDisk
from cluster.hosts.signals import send_signal, state_of
from cluster.protocol import Disk, ProcessId
from results.record.paths import RunPaths


class LocalHosts:
    """What such kinds of hosts share.

    Args:
        processes_file: `RunPaths.processes`; nodes' folders lie beside it.
    """

    def __init__(self, processes_file: Path) -> None:
        self.processes_file = processes_file

    def send_signal(self, process: ProcessId, number: signal.Signals) -> bool:
        """Send a signal to the group that a process leads; False if it has ended already."""
        return send_signal(process, number)

    def state_of(self, process: ProcessId) -> str | None:
        """Return the letter of its state, as in `/proc/PID/stat`; None: there is none any more."""
        return state_of(process)

    def disk(self, node: str) -> Disk:
        """Return the files of a node's folder."""
        return LocalDisk(RunPaths(self.processes_file.parent).node(node).absolute())

    def traces(self) -> Mapping[str, str]:
        """Return what of the run is on this machine now."""
        return local_traces(self.processes_file)
