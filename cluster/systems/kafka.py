"""Apache Kafka: a release of Maven Central, jars of yours before it, or a build of yours."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cluster.hosts.choose import HostKind
from cluster.java import Java, brokers_java
from cluster.kafka.class_keeping import keep_classes
from cluster.kafka.cluster import KafkaCluster
from cluster.kafka.fetch import Distribution, fetch_kafka
from cluster.kafka.programs import KafkaPrograms
from cluster.protocol import Hosts, UserError
from cluster.systems.builds import build_in, hashes_of, jars_named
from cluster.systems.system import Say
from results.environment import Told
from results.record.declared import Declared
from results.record.paths import RunPaths
from results.record.plan import NEWEST, Plan

USE_ANOTHER = "use --hosts namespace"
_LOGGING = ("log4j", "slf4j", "reload4j")
"""How the names of jars begin that a server logs by."""


@dataclass(slots=True)
class KafkaSystem:
    """Implements `cluster.systems.system.System`.

    Args:
        plan: Of the run.
    """

    plan: Plan
    _distribution: Distribution | None = None
    _java: Java | None = None

    def refuse(self, *, keep: bool) -> None:
        """Refuse ZooKeeper, and keeping, where hosts are reached by ssh."""
        if not self.plan.hosts.startswith("ssh:"):
            return
        if self.plan.kept_outside:
            raise UserError(
                f"{self.plan.system} needs ZooKeeper, which does not run on ssh hosts;"
                f" {USE_ANOTHER}, or Kafka 3.3 or later without :zookeeper"
            )
        if keep:
            raise UserError(f"a cluster on ssh hosts cannot be kept; {USE_ANOTHER}")

    def settled(self, say: Say) -> Plan:  # noqa: ARG002 - the protocol's
        """Return the plan with the version that the jars tell, and with absolute paths."""
        named = self.plan.named
        if not named.is_yours:
            return self.plan
        path = Path(named.path).expanduser().absolute() if named.path else None
        jars = tuple(str(jar) for jar in jars_named(named.jars))
        system = replace(named, path=str(path or ""), jars=jars).text
        version = build_in(path).version if path else None
        return self.plan.model_copy(update={"system": system, "version": version})

    def prepare(self, say: Say) -> None:
        """Fetch the release, or look at the build; find a Java; keep the default's classes."""
        self._java = brokers_java()
        self._distribution = distribution_of(self.plan, say)
        here = self.plan.hosts in {HostKind.NAMESPACE, HostKind.PROCESS}
        # Of a version that is run now and then they would not be worth the wait.
        if here and self.plan.named.version == NEWEST and not self._distribution.own:
            keep_classes(self._java, self._distribution, progress=say)

    def declared(self) -> Declared:
        """Return that all can be seen."""
        return Declared(what=self.plan.system)

    def told(self) -> Told:
        """Return version, commit, the hashes of the user's jars, and the Java."""
        found, java = self._prepared()
        brokers: dict[str, object] = {"version": found.version}
        if found.commit:
            brokers["commit"] = found.commit
        if found.own:
            brokers["jars"] = hashes_of(found.own)
        return Told(java=str(java.path), java_version=str(java.major), brokers=brokers)

    def cuts_by_itself(self, hosts: str) -> bool:  # noqa: ARG002 - the protocol's
        """No."""
        return False

    def hosts(self, paths: RunPaths) -> Hosts | None:  # noqa: ARG002 - the protocol's
        """Return none of its own."""
        return None

    def cluster(self, hosts: Hosts, paths: RunPaths) -> KafkaCluster:
        """Return its brokers, not started."""
        programs = KafkaPrograms(self.plan, *self._prepared())
        return KafkaCluster(self.plan, hosts, programs=programs, paths=paths)

    def commands(self) -> Mapping[str, str]:
        """Return the Java and the class path of Kafka's own programs."""
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
        UserError: It is not there.
    """
    named = plan.named
    if not named.path:
        release = fetch_kafka(named.version, progress=say)
        own = jars_named(named.jars)
        return replace(release, classpath=(*own, *release.classpath), own=own)
    build = build_in(Path(named.path))
    jars = build.classpath
    if not any(jar.name.startswith(("log4j", "reload4j")) for jar in jars):
        # A tree is built without what a server logs by, and would say nothing.
        beside = fetch_kafka(NEWEST, progress=say).classpath
        names = {jar.name for jar in jars}
        jars += tuple(
            jar for jar in beside if jar.name.startswith(_LOGGING) and jar.name not in names
        )
    return Distribution(
        version=build.version, classpath=jars, commit=build.commit, own=build.classpath
    )
