"""The base class of hosts with processes and files on this machine."""

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
    """The common code of hosts with processes and files on this machine.

    Args:
        processes_file: `RunPaths.processes`. The nodes' folders are beside this file.
    """

    def __init__(self, processes_file: Path) -> None:
        self.processes_file = processes_file
        self.clocks = clock.Clocks(self._write_clock)
        self.resources = LocalResources(processes_file)

    # Not abstract, because classes that add a file system below the data call both by `super()`.
    def machine(self, node: str) -> Machine:
        """Return the machine of a node."""
        raise NotImplementedError

    def down(self) -> None:
        """End all processes. Idempotent."""
        raise NotImplementedError

    def send_signal(self, process: ProcessId, number: signal.Signals) -> bool:
        """Send a signal to a process's group; return False if the process has already ended."""
        return send_signal(process, number)

    def state_of(self, process: ProcessId) -> str | None:
        """Return a process's state letter, as in `/proc/PID/stat`; None if the process has gone."""
        return state_of(process)

    def disk(self, node: str) -> Disk:
        """Return access to the files of a node's folder."""
        return LocalDisk(self._folder(node))

    def traces(self) -> Mapping[str, str]:
        """Return the run's traces that are on this machine now."""
        return local_traces(self.processes_file)

    def clock_environment(self, node: str) -> Mapping[str, str]:
        """Return the environment variables that a broker needs for later clock shifts.

        Raises:
            UserError: libfaketime is missing.
        """
        preloaded = clock.library()
        if preloaded is None:
            raise UserError(clock.MISSING)
        self.clocks.true(node)
        return clock.environment(preloaded, self._clock_file(node))

    def set_clock(self, node: str, *, offset_s: float, rate: float = 1.0) -> None:
        """Shift a node's wall clock by an offset, and change how fast the clock runs."""
        self.clocks.set(node, offset_s=offset_s, rate=rate)

    def reset_clock(self, node: str) -> None:
        """Set a node's clock to the correct time again. Idempotent."""
        self.clocks.reset(node)

    def clock_offset_s(self, node: str) -> float:
        """Return how many seconds a node's clock is ahead of true time now."""
        return self.clocks.offset_s(node)

    def handles(self, process: ProcessId) -> Handles:
        """Return the file descriptors of a process, and their limits."""
        return self.resources.handles(process)

    def limit_handles(self, process: ProcessId, soft: int) -> None:
        """Let a process open only file descriptors with numbers below `soft`."""
        self.resources.limit_handles(process, soft)

    def processor(self, node: str) -> Processor:
        """Return how much processor time a node's server may use, and how much it has used."""
        return self.resources.processor(node)

    def limit_processor(self, node: str, share: float | None) -> None:
        """Limit a node's server to a share of one core; None removes the limit. Idempotent."""
        self.resources.limit_processor(node, share)

    def memory(self, node: str) -> Memory:
        """Return the memory use of a node's server."""
        return self.resources.memory(node)

    def limit_memory(self, node: str, limit_bytes: int | None) -> None:
        """Limit the memory of a node's server; None removes the limit. Idempotent."""
        self.resources.limit_memory(node, limit_bytes)

    def enclosed(self, node: str, command: Command, process: ProcessId) -> ProcessId:
        """Put a new process into a control group if limits may apply. Return the process."""
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
        draft.replace(file)  # Atomic: the broker may read the file at any moment.
