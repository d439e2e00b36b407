"""Apache Kafka: a release from Maven Central, a release with the user's jars, or a user's build."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cluster.hosts.choose import HostKind
from cluster.java import Java, brokers_java, is_chosen
from cluster.kafka.class_keeping import keep_classes
from cluster.kafka.cluster import KafkaCluster
from cluster.kafka.fetch import Distribution, fetch_kafka
from cluster.kafka.programs import KafkaPrograms
from cluster.protocol import Hosts, UserError
from cluster.systems.builds import build_in, hashes_of, jars_named
from cluster.systems.loggers import with_logging
from cluster.systems.system import Say
from results.environment import Told
from results.record.declared import Declared
from results.record.paths import RunPaths
from results.record.plan import NEWEST, Plan, plan_from

USE_ANOTHER = "use --hosts namespace"


@dataclass(slots=True)
class KafkaSystem:
    """Implements `cluster.systems.system.System` for Apache Kafka.

    Args:
        plan: The run's plan.
    """

    plan: Plan
    _distribution: Distribution | None = None
    _java: Java | None = None

    def refuse(self, *, keep: bool) -> None:
        """Raise for ssh hosts if the plan needs ZooKeeper, or if the cluster should be kept.

        Both cases are unsupported.
        """
        if not self.plan.hosts.startswith("ssh:"):
            return
        if self.plan.kept_outside:
            raise UserError(
                f"{self.plan.system} needs ZooKeeper, which does not run on ssh hosts;"
                f" {USE_ANOTHER}, or Kafka 3.3 or later without :zookeeper"
            )
        if keep:
            raise UserError(f"a cluster on ssh hosts cannot be kept; {USE_ANOTHER}")

    def settled(self, say: Say) -> Plan:
        """Return the plan with the version of the user's jars, and with absolute paths.

        Raises:
            PlanError: That version does not support the plan's mode.
        """
        named = self.plan.named
        if not named.is_yours:
            return self.plan
        path = Path(named.path).expanduser().absolute() if named.path else None
        jars = tuple(str(jar) for jar in jars_named(named.jars))
        system = replace(named, path=str(path or ""), jars=jars).text
        values = self.plan.model_dump(mode="json", exclude_none=True) | {"system": system}
        values.pop("version", None)  # The version of the jars when the plan was made.
        if path is not None:
            build = build_in(path)
            values["version"] = build.version
            commit = f", commit {build.commit}" if build.commit else ""
            say(f"Kafka {build.version}{commit}, in {path}")
        plan = plan_from(values)
        KafkaSystem(plan).refuse(keep=False)  # ZooKeeper may be this version's default.
        return plan

    def prepare(self, say: Say) -> None:
        """Fetch the release or check the build, find a Java, and archive the classes.

        The class archive is made for the default release only.
        """
        self._java = brokers_java()
        self._distribution = distribution_of(self.plan, say)
        kind = self.plan.hosts.partition(":")[0]
        if is_chosen() and kind in {HostKind.DOCKER, HostKind.SSH}:
            say(
                f"--java is used only to format disks: brokers on {kind} hosts use the Java of"
                " those hosts"
            )
        here = kind in {HostKind.NAMESPACE, HostKind.PROCESS}
        # For versions that are rarely run, the archive is not worth the wait.
        if here and self.plan.named.version == NEWEST and not self._distribution.own:
            keep_classes(self._java, self._distribution, progress=say)

    def declared(self) -> Declared:
        """Declare that Logquake can make all observations of Kafka."""
        return Declared(what=self.plan.system)

    def told(self) -> Told:
        """Return the version, the commit, the hashes of the user's jars, and the Java."""
        found, java = self._prepared()
        brokers: dict[str, object] = {"version": found.version}
        if found.commit:
            brokers["commit"] = found.commit
        if found.own:
            brokers["jars"] = hashes_of(found.own)
        return Told(java=str(java.path), java_version=str(java.major), brokers=brokers)

    def cuts_by_itself(self, hosts: str) -> bool:  # noqa: ARG002 - the protocol's
        """Return False: Kafka's brokers cannot cut links themselves."""
        return False

    def hosts(self, paths: RunPaths) -> Hosts | None:  # noqa: ARG002 - the protocol's
        """Return None: Kafka has no machines of its own, so the plan's hosts are used."""
        return None

    def cluster(self, hosts: Hosts, paths: RunPaths) -> KafkaCluster:
        """Return Kafka's brokers, not started."""
        programs = KafkaPrograms(self.plan, *self._prepared())
        return KafkaCluster(self.plan, hosts, programs=programs, paths=paths)

    def commands(self) -> Mapping[str, str]:
        """Return the paths of Java and of the class path for Kafka's command-line tools."""
        found, java = self._prepared()
        classpath = ":".join(map(str, (*found.classpath, *found.tools)))
        return {"KAFKA_JAVA": str(java.path), "KAFKA_CLASSPATH": classpath}

    def _prepared(self) -> tuple[Distribution, Java]:
        assert self._distribution is not None, "`prepare` was not called"
        assert self._java is not None
        return self._distribution, self._java


def distribution_of(plan: Plan, say: Say) -> Distribution:
    """Return the Kafka that a plan names.

    Raises:
        UserError: This Kafka is missing.
    """
    named = plan.named
    if not named.path:
        release = fetch_kafka(named.version, progress=say)
        own = jars_named(named.jars)
        return replace(release, classpath=(*own, *release.classpath), own=own)
    build = build_in(Path(named.path).expanduser())
    return Distribution(
        version=build.version,
        classpath=with_logging(build, say),
        commit=build.commit,
        own=build.classpath,
    )
