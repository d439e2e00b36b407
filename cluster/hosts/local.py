"""Hosts whose processes and files are this machine's own."""

import signal
from collections.abc import Mapping
from pathlib import Path

from cluster.hosts import clock
from cluster.hosts.audit import local_traces
from cluster.hosts.disk import LocalDisk
from cluster.hosts.machine import Machine
from cluster.hosts.resources import LocalResources
from cluster.hosts.signals import send_signal, state_of
from cluster.protocol import Command, Disk, Handles, Memory, ProcessId, Processor, UserError
from results.record.paths import RunPaths


class LocalHosts:
    """What such kinds of hosts share.

    Args:
        processes_file: `RunPaths.processes`; nodes' folders lie beside it.
    """

    def __init__(self, processes_file: Path) -> None:
        self.processes_file = processes_file
        self.clocks = clock.Clocks(self._write_clock)
        self.resources = LocalResources(processes_file)

    # Not abstract: who puts a file system below the data calls both by `super()`.
    def machine(self, node: str) -> Machine:
        """Return the machine of a node."""
        raise NotImplementedError

    def down(self) -> None:
        """End every process. Idempotent."""
        raise NotImplementedError

    def send_signal(self, process: ProcessId, number: signal.Signals) -> bool:
        """Send a signal to the group that a process leads; False if it has ended already."""
        return send_signal(process, number)

    def state_of(self, process: ProcessId) -> str | None:
        """Return the letter of its state, as in `/proc/PID/stat`; None: there is none any more."""
        return state_of(process)

    def disk(self, node: str) -> Disk:
        """Return the files of a node's folder."""
        return LocalDisk(self._folder(node))

    def traces(self) -> Mapping[str, str]:
        """Return what of the run is on this machine now."""
        return local_traces(self.processes_file)

    def clock_environment(self, node: str) -> Mapping[str, str]:
        """Return what a broker must be started with so that its clock can be shifted.

        Raises:
            UserError: libfaketime is missing.
        """
        preloaded = clock.library()
        if preloaded is None:
            raise UserError(clock.MISSING)
        self.clocks.true(node)
        return clock.environment(preloaded, self._clock_file(node))

    def set_clock(self, node: str, *, offset_s: float, rate: float = 1.0) -> None:
        """Have a node's broker see the time shifted, and pass at another rate from now on."""
        self.clocks.set(node, offset_s=offset_s, rate=rate)

    def reset_clock(self, node: str) -> None:
        """Have it see the true time again. Idempotent."""
        self.clocks.reset(node)

    def clock_offset_s(self, node: str) -> float:
        """Return by how much what a broker would see now differs from the true time."""
        return self.clocks.offset_s(node)

    def handles(self, process: ProcessId) -> Handles:
        """Return the file descriptors of a process."""
        return self.resources.handles(process)

    def limit_handles(self, process: ProcessId, soft: int) -> None:
        """Have a process open no descriptor whose number would be `soft` or more."""
        self.resources.limit_handles(process, soft)

    def processor(self, node: str) -> Processor:
        """Return how much of the processors a node's server gets, and got."""
        return self.resources.processor(node)

    def limit_processor(self, node: str, share: float | None) -> None:
        """Give a node's server so much of one core; None: as before. Idempotent."""
        self.resources.limit_processor(node, share)

    def memory(self, node: str) -> Memory:
        """Return how much memory a node's server has."""
        return self.resources.memory(node)

    def limit_memory(self, node: str, limit_bytes: int | None) -> None:
        """Give a node's server so much memory; None: as before. Idempotent."""
        self.resources.limit_memory(node, limit_bytes)

    def enclosed(self, node: str, command: Command, process: ProcessId) -> ProcessId:
        """Return a process that was just started, in a group of its own if it may be limited."""
        if command.limited:
            self.resources.enclose(node, process)
        return process

    def _folder(self, node: str) -> Path:
        return RunPaths(self.processes_file.parent).node(node).absolute()

    def _clock_file(self, node: str) -> Path:
        return self._folder(node) / clock.CLOCK_FILE

    def _write_clock(self, node: str, line: str) -> None:
        file = self._clock_file(node)
        draft = file.with_name(f"{file.name}.new")
        draft.write_text(line, encoding="ascii")
        draft.replace(file)  # The broker reads at any moment: the old line or the new one.
