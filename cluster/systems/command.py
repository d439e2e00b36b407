"""Any broker that a command line starts; a file has the command and the broker's guarantees."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cluster.hosts.namespace import search_path
from cluster.kafka.cluster import KafkaCluster
from cluster.kafka.programs import Seat
from cluster.protocol import Ability, Hosts, UserError
from cluster.systems.command_file import CommandFile, Lack, filled, load_command
from cluster.systems.system import Say
from results.environment import Told
from results.record.declared import Declared, Sight
from results.record.nodes import broker_names, node_id
from results.record.paths import RunPaths
from results.record.plan import Plan

PREPARE_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class CommandPrograms:
    """Implements `cluster.kafka.programs.Programs` for a system that a file describes.

    Attributes:
        file: The content of the file.
        here: The folder of the file.
    """

    file: CommandFile
    here: Path

    @property
    def reads_all_at_start(self) -> bool:
        """False, because it is unknown whether the brokers read all logs at their start."""
        return False

    @property
    def one_process(self) -> bool:
        """Whether one process runs all brokers, according to the file."""
        return self.file.one_process

    @property
    def sees(self) -> frozenset[Sight]:
        """The possible observations, according to the file."""
        return self.file.sees

    @property
    def software(self) -> Sequence[Path]:
        """Return the paths of the software that the file names."""
        return [self.program(name) for name in self.file.software]

    def environment(self, seat: Seat) -> Mapping[str, str]:
        """Return the environment variables that the file adds."""
        values = self._values(seat)
        return {name: filled(text, values) for name, text in self.file.environment.items()}

    def configure(self, seat: Seat) -> None:
        """Create a node's data folder, and write the files that the system's file defines."""
        seat.data.mkdir(exist_ok=True)
        values = self._values(seat)
        for name, text in self.file.files.items():
            path = seat.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(filled(text, values), encoding="utf-8")

    def format(self, seats: Sequence[Seat]) -> None:
        """Run the file's `prepare` command once for each node."""
        for seat in seats if self.file.prepare else ():
            self._prepare(seat)

    def argv(self, seat: Seat, java: Callable[[], Path | None]) -> list[str]:
        """Return the command line that starts a broker.

        The broker may be written in any language.
        """
        del java
        return self._filled(self.file.argv, seat)

    def program(self, name: str) -> Path:
        """Return the path of a program.

        Raises:
            UserError: The program does not exist.
        """
        if "/" in name:
            found = (self.here / Path(name).expanduser()).absolute()
            there = found.exists()
        else:
            found = Path(shutil.which(name, path=search_path()) or name)
            there = found.is_absolute()
        if there:
            return found
        how = f"; type: {self.file.install}" if self.file.install else " is not in PATH; install it"
        raise UserError(f"{found}, which starts {self.file.what}, does not exist{how}")

    def _prepare(self, seat: Seat) -> None:
        argv = self._filled(self.file.prepare, seat)
        environment = os.environ | self.environment(seat)
        try:
            done = subprocess.run(  # noqa: S603 - the user's own command
                argv,
                cwd=seat.folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=PREPARE_LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as failed:
            raise UserError(f"{' '.join(argv)} cannot prepare {seat.node}: {failed}") from failed
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            raise UserError(
                f"{' '.join(argv)} cannot prepare {seat.node}: it exited with"
                f" {done.returncode}{f' and printed: {said[0]}' if said else ''}"
            )

    def _filled(self, argv: Sequence[str], seat: Seat) -> list[str]:
        values = self._values(seat)
        program, *rest = (filled(text, values) for text in argv)
        return [str(self.program(program)), *rest]

    def _values(self, seat: Seat) -> Mapping[str, str]:
        at = seat.endpoints
        others = [node for node in at if node != seat.node]
        own = at[seat.node]
        return {
            "id": str(node_id(seat.node)),
            "node": seat.node,
            "host": own.host,
            "port": str(own.broker_port),
            "inner_port": str(seat.inner_ports[seat.node]),
            "data": str(seat.data),
            "folder": str(seat.folder),
            "here": str(self.here),
            "ids": ",".join(str(node_id(node)) for node in at),
            "bootstrap": ",".join(f"{each.host}:{each.broker_port}" for each in at.values()),
            "peers": ",".join(
                f"{node_id(node)}@{at[node].host}:{at[node].broker_port}" for node in others
            ),
            "inner_peers": ",".join(
                f"{node_id(node)}@{at[node].host}:{seat.inner_ports[node]}" for node in others
            ),
        }


class CommandSystem:
    """Implements `cluster.systems.system.System` for a system that a file describes.

    Args:
        plan: The run's plan.

    Raises:
        UserError: The file cannot be read.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._path = Path(plan.named.path).expanduser().absolute()
        self._file = load_command(self._path)

    def refuse(self, *, keep: bool) -> None:
        """Raise if the plan needs a missing ability, has a scenario, or should keep the cluster."""
        plan, file = self.plan, self._file
        if keep:
            raise UserError(f"{file.what} cannot be kept after its run; remove --keep")
        if plan.scenario is not None:
            raise UserError(
                f"the scenario {plan.scenario.name} tests Kafka, not {file.what}; remove --system"
            )
        needed = {
            Lack.GROUPS: plan.is_grouped,
            Lack.TRANSACTIONS: plan.transactional,
            Lack.IDEMPOTENCE: plan.idempotent,
        }
        remedy = {
            Lack.GROUPS: "use --workload log",
            Lack.TRANSACTIONS: "use --workload log",
            Lack.IDEMPOTENCE: "add --no-idempotence",
        }
        for lack in Lack:
            if lack in file.lacks and needed[lack]:
                raise UserError(
                    f"{file.what} has no {lack}, according to {self._path}; {remedy[lack]}"
                )

    def settled(self, say: Say) -> Plan:  # noqa: ARG002 - the protocol's
        """Return the plan with the file's absolute path, and with the brokers' number and ids.

        Raises:
            UserError: The user asked for another number of brokers.
        """
        update = self._of_size(self._file.brokers or self.plan.nodes)
        nodes = update.get("nodes", self.plan.nodes)
        first = self._file.first_id
        ids = tuple(range(first, first + nodes))
        system = replace(self.plan.named, path=str(self._path)).text
        return self.plan.model_copy(update={**update, "system": system, "broker_ids": ids})

    def _of_size(self, brokers: int) -> dict[str, int]:
        """Return the changes that adapt the plan to this number of brokers."""
        plan = self.plan
        if plan.nodes == brokers:
            return {}
        asked = {"nodes": plan.nodes, "replication": plan.replication}
        for key, number in asked.items():
            if key in plan.model_fields_set and (key == "nodes" or number > brokers):
                raise UserError(
                    f"{self._file.what} runs with {brokers}"
                    f" {'broker' if brokers == 1 else 'brokers'}, according to {self._path}, but"
                    f" the plan has {key} = {number}; remove {key} from the plan"
                )
        replication = min(plan.replication, brokers)
        return {
            "nodes": brokers,
            "replication": replication,
            "min_insync": min(plan.min_insync, replication),
        }

    def prepare(self, say: Say) -> None:  # noqa: ARG002 - the protocol's
        """Check that the programs exist."""
        programs = self._programs()
        for name in (self._file.argv[0], *self._file.prepare[:1], *self._file.software):
            programs.program(filled(name, {"here": str(self._path.parent)}))

    def declared(self) -> Declared:
        """Return the declarations in the system's file.

        In addition, the harness observes processes that ended.
        """
        file = self._file
        return Declared(
            what=file.what,
            sees=file.sees | {Sight.ENDS},
            cannot={**_cannot(file, self.plan), **file.cannot},
            notes=file.notes,
        )

    def told(self) -> Told:
        """Return the hashes of the file and of the programs."""
        programs = self._programs()
        names = dict.fromkeys((self._file.argv[0], *self._file.software))
        paths = [programs.program(filled(each, {"here": str(self._path.parent)})) for each in names]
        return Told(
            brokers={
                "version": self._file.what,
                "file": _digest(self._path),
                "programs": {path.name: _digest(path) for path in paths if path.is_file()},
            }
        )

    def cuts_by_itself(self, hosts: str) -> bool:  # noqa: ARG002 - the protocol's
        """Return False: the system's nodes cannot cut links themselves."""
        return False

    def hosts(self, paths: RunPaths) -> Hosts | None:  # noqa: ARG002 - the protocol's
        """Return None: the system has no machines of its own."""
        return None

    def cluster(self, hosts: Hosts, paths: RunPaths) -> KafkaCluster:
        """Return the system's brokers, not started."""
        return KafkaCluster(self.plan, hosts, programs=self._programs(), paths=paths)

    def commands(self) -> Mapping[str, str]:
        """Return nothing: the system brings no command-line tools."""
        return {}

    def _programs(self) -> CommandPrograms:
        return CommandPrograms(self._file, self._path.parent)


def _cannot(file: CommandFile, plan: Plan) -> dict[str, str]:
    """Return the abilities that the system lacks according to its file, each with a reason."""
    together = file.one_process and len(broker_names(plan)) > 1
    gone = "acknowledged records do not survive that, according to its file (survives_kill)"
    found = {
        Ability.KILL: gone if not file.survives_kill else "",
        Ability.STOP: gone if not file.survives_kill else "",
        Ability.APART: "all brokers run in one process" if together else "",
        Ability.FILES: ""
        if Sight.REPLICA_LOGS in file.sees
        else "its files do not have Kafka's format",
        Ability.QUORUM: "" if Sight.QUORUM in file.sees else "it does not report the voters",
        Ability.TIME: "it does not report its own time",
    }
    return {each.value: why for each, why in found.items() if why}


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
