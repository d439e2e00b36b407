"""A Kafka cluster that another user runs, as an attached cluster for tests: three nodes, SASL_SSL.

`python -m tests.attached_lab up FOLDER` starts the cluster, and `... down FOLDER` removes it. Only
root can run it. Each node has a network namespace, an ordinary user's id and addresses of its own.
The cluster's owner has users, ACLs, and a topic with records. The script `FOLDER/node N VERB` does
what an operator's commands would do. The file `cluster.toml` permits these commands.
"""

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from cluster.java import brokers_java
from cluster.kafka.fetch import fetch_kafka
from cluster.kafka.storage import java_argv
from results.record.clock import wait_until

admins: Any = importlib.import_module("confluent_kafka.admin")
"""The stubs of this module export no names."""

NODES = (1, 2, 3)
PORT, CONTROLLER_PORT = 19_193, 19_194
USER_ID = 64_123
FOREIGN = "orders"
FOREIGN_RECORDS = 500
READY_S = 120.0
_MECHANISM = "SCRAM-SHA-512"
_NODE = r"""#!/bin/sh
# What an operator would do to a node, by ssh: node N VERB [HOST PORT].
cd "$(dirname "$0")" || exit 2
n=$1; verb=$2; host=$3; port=$4
inside="ip netns exec stg$n"
pid=$(cat "n$n/pid" 2>/dev/null)
case $verb in
  start) setsid $inside setpriv --reuid USER --regid USER --clear-groups --no-new-privs \
           sh -c "echo \$\$ > n$n/pid; exec $(cat java) kafka.Kafka n$n/server.properties" \
           >> "n$n/out" 2>&1 < /dev/null &
         sleep 0.3 ;;
  status) [ -n "$pid" ] && ps -o stat=,pid= -p "$pid" || echo gone ;;
  kill) kill -KILL "$pid" ;;
  stop) kill -TERM "$pid" ;;
  pause) kill -STOP "$pid" ;;
  resume) kill -CONT "$pid" ;;
  cut) $inside nft add element inet stg cut "{ $host }" ;;
  join) $inside nft delete element inet stg cut "{ $host }" 2>/dev/null || true ;;
  reach) $inside timeout 1 bash -c "</dev/tcp/$host/$port" 2>/dev/null ;;
  files) tar -C "n$n/data" --ignore-failed-read -c . 2>/dev/null; [ $? -le 1 ] ;; # 1: a file grew.
esac
"""
_PROPERTIES = """\
process.roles=broker,controller
node.id={n}
listeners=SASL_SSL://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=SASL_SSL://{host}:{port}
inter.broker.listener.name=SASL_SSL
controller.listener.names=CONTROLLER
listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
controller.quorum.voters={voters}
log.dirs={folder}/n{n}/data
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512,OAUTHBEARER
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config={plain} username="admin" password="admin-secret" \
 user_admin="admin-secret" user_owner="owner-secret";
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={scram};
listener.name.sasl_ssl.oauthbearer.sasl.jaas.config={oauth};
ssl.keystore.type=PEM
ssl.keystore.location={folder}/node.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:ANONYMOUS
min.insync.replicas=2
default.replication.factor=3
auto.create.topics.enable=false
offsets.topic.replication.factor=3
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
transaction.state.log.num.partitions=4
replica.lag.time.max.ms=6000
broker.session.timeout.ms=8000
controller.quorum.election.timeout.ms=3000
controller.quorum.fetch.timeout.ms=6000
controller.quorum.request.timeout.ms=6000
group.initial.rebalance.delay.ms=0
log.segment.delete.delay.ms=1000
num.network.threads=2
num.io.threads=4
num.replica.fetchers=1
log.cleaner.dedupe.buffer.size=4194304
log.index.size.max.bytes=1048576
"""
_SECURITY = "org.apache.kafka.common.security"
_CLUSTER = """\
bootstrap = [{bootstrap}]
test_cluster = true
version = "4.3.1"

[security]
"security.protocol" = "sasl_ssl"
"ssl.ca.location" = "ca.pem"
"sasl.mechanism" = "SCRAM-SHA-512"
"sasl.username" = "logquake"
"sasl.password" = "file:password"

[nodes]
status = "./node {{id}} status"
kill = "./node {{id}} kill"
start = "./node {{id}} start"
stop = "./node {{id}} stop"
pause = "./node {{id}} pause"
resume = "./node {{id}} resume"
cut = "./node {{id}} cut {{host}}"
join = "./node {{id}} join {{host}}"
reach = "./node {{id}} reach {{host}} {{port}}"
files = "./node {{id}} files"
"""


def host(n: int) -> str:
    """Return the address of a node."""
    return f"10.99.77.{10 + n}"


@dataclass(frozen=True, slots=True)
class Lab:
    """The cluster in a folder."""

    folder: Path

    @property
    def file(self) -> Path:
        """The cluster's file, which permits the commands."""
        return self.folder / "cluster.toml"

    def owners(self, **more: str) -> dict[str, str]:
        """Return the client settings of the cluster's owner."""
        return {
            "bootstrap.servers": ",".join(f"{host(n)}:{PORT}" for n in NODES),
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": str(self.folder / "ca.pem"),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": "admin-secret",
            "log_level": "2",
            **more,
        }

    def node(self, n: int, verb: str, *more: str) -> str:
        """Run an operator's command on a node."""
        done = subprocess.run(
            [self.folder / "node", str(n), verb, *more],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.stdout.strip()

    def up(self) -> None:
        """Create certificates, networks and disks; start the nodes; write the owner's records."""
        self._make_certificates()
        self._make_network()
        self._make_nodes()
        for n in NODES:
            self.node(n, "start")
        admin = admins.AdminClient(self.owners())
        wait_until(lambda: self._serves(admin), timeout_s=READY_S, what="the lab's brokers")
        self._grant(admin)
        new = admins.NewTopic(FOREIGN, 2, 3)
        admin.create_topics([new])[FOREIGN].result(20)
        producer = Producer(self.owners(acks="all"))
        for number in range(FOREIGN_RECORDS):
            producer.produce(FOREIGN, f"order {number}".encode(), partition=number % 2)
        assert producer.flush(30) == 0

    def down(self) -> None:
        """End the nodes, and remove the networks."""
        for n in NODES:
            self.node(n, "kill")
            _do("ip", "netns", "del", f"stg{n}", check=False)
        _do("ip", "netns", "del", "stg0", check=False)

    def belongings(self) -> dict[str, object]:
        """Return all that the owner has: topics, groups, ACLs, nft rules, files, records.

        Tests compare it.
        """
        admin = admins.AdminClient(self.owners())
        acls = admin.describe_acls(
            admins.AclBindingFilter(
                admins.ResourceType.ANY, None, admins.ResourcePatternType.ANY, None, None,
                admins.AclOperation.ANY, admins.AclPermissionType.ANY,
            )
        ).result(20)  # fmt: skip
        topics = admin.list_topics(timeout=20).topics
        groups = admin.list_consumer_groups().result().valid
        return {
            "topics": sorted(name for name in topics if not name.startswith("__")),
            "groups": sorted(it.group_id for it in groups),
            "acls": sorted(map(str, acls)),
            "rules": [
                _do("ip", "netns", "exec", f"stg{n}", "nft", "list", "ruleset") for n in NODES
            ],
            "processes": [self.node(n, "status")[:1] in "SRD" for n in NODES],
            "folders": [
                sorted(
                    it.name for it in self._data(n).iterdir() if it.is_dir() and it.name[0] != "_"
                )
                for n in NODES
            ],
            "records": self.records(),
            "segments": {
                f"n{n}/{it.parent.name}/{it.name}": it.read_bytes()
                for n in NODES
                for it in sorted(self._data(n).glob(f"{FOREIGN}-*/*.log"))
            },
        }

    def records(self) -> list[tuple[int, int, bytes]]:
        """Return the records of the owner's topic."""
        reader = Consumer(
            self.owners(**{"group.id": "owner", "auto.offset.reset": "earliest"})
            | {"enable.auto.commit": "false"}
        )
        reader.assign([TopicPartition(FOREIGN, part, 0) for part in (0, 1)])
        found: list[tuple[int, int, bytes]] = []

        def read() -> bool:
            for each in reader.consume(1000, 0.5):
                assert each.error() is None
                part, offset, value = each.partition(), each.offset(), each.value()
                assert part is not None
                assert offset is not None
                assert value is not None
                found.append((part, offset, value))
            return len(found) >= FOREIGN_RECORDS

        wait_until(read, timeout_s=30, what="the owner's records")
        reader.close()
        return sorted(found)

    def _data(self, n: int) -> Path:
        return self.folder / f"n{n}" / "data"

    def _serves(self, admin: admins.AdminClient) -> bool:
        gone = [n for n in NODES if self.node(n, "status") == "gone"]
        assert not gone, (self.folder / f"n{gone[0]}" / "out").read_text()[-2000:]
        try:
            return len(admin.list_topics(timeout=2).brokers) == len(NODES)
        except KafkaException:  # The broker is not up yet.
            return False

    def _make_certificates(self) -> None:
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o755)
        here = self.folder
        names = ",".join(f"IP:{host(n)}" for n in NODES)
        (here / "names").write_text(f"subjectAltName={names}\n")
        for name in ("ca", "other-ca"):
            _do("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3",
                "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem",
                cwd=here)  # fmt: skip
        _do("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=staging",
            "-keyout", "node.key", "-out", "node.csr", cwd=here)  # fmt: skip
        _do("openssl", "x509", "-req", "-in", "node.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "3", "-extfile", "names", "-out", "node.crt",
            cwd=here)  # fmt: skip
        both = (here / "node.key").read_text() + (here / "node.crt").read_text()
        (here / "node.pem").write_text(both)
        (here / "node.pem").chmod(0o644)  # A key of three days, for other users of this machine.

    def _make_network(self) -> None:
        # The bridge has its own namespace, too, in which this machine's firewall has no rules.
        _do("ip", "netns", "add", "stg0")
        hub = ("ip", "netns", "exec", "stg0", "ip", "link")
        _do(*hub, "add", "bridge", "type", "bridge")
        _do(*hub, "set", "bridge", "up")
        _do("ip", "link", "add", "stg0", "type", "veth", "peer", "name", "p0", "netns", "stg0")
        _do(*hub, "set", "p0", "master", "bridge", "up")
        _do("ip", "addr", "add", "10.99.77.1/24", "dev", "stg0")
        _do("ip", "link", "set", "stg0", "up")
        for n in NODES:
            inside = ("ip", "netns", "exec", f"stg{n}")
            _do("ip", "netns", "add", f"stg{n}")
            _do(*hub, "add", f"p{n}", "type", "veth", "peer", "name", "eth0", "netns", f"stg{n}")
            _do(*hub, "set", f"p{n}", "master", "bridge", "up")
            _do(*inside, "ip", "addr", "add", f"{host(n)}/24", "dev", "eth0")
            _do(*inside, "ip", "link", "set", "eth0", "up")
            _do(*inside, "ip", "link", "set", "lo", "up")
            _do(*inside, "nft", "add table inet stg; add set inet stg cut { type ipv4_addr; };"
                " add chain inet stg in { type filter hook input priority 0; };"
                " add rule inet stg in ip saddr @cut drop;"
                " add chain inet stg out { type filter hook output priority 0; };"
                " add rule inet stg out ip daddr @cut drop")  # fmt: skip

    def _make_nodes(self) -> None:
        here = self.folder
        java, kafka = brokers_java(), fetch_kafka("4.3.1", progress=lambda _: None)
        (here / "lib").mkdir()
        for jar in kafka.classpath:  # The cache is in a home folder that other users cannot read.
            shutil.copy(jar, here / "lib" / jar.name)
        argv = [str(java.path), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                "-XX:-UsePerfData", "-cp", f"'{here}/lib/*'"]  # fmt: skip
        (here / "java").write_text(" ".join(argv))
        node = here / "node"
        node.write_text(_NODE.replace("USER", str(USER_ID)))
        node.chmod(0o755)
        (here / "password").write_text("logquake-secret\n")
        bootstrap = ", ".join(f'"{host(n)}:{PORT}"' for n in NODES)
        self.file.write_text(_CLUSTER.format(bootstrap=bootstrap))
        voters = ",".join(f"{n}@{host(n)}:{CONTROLLER_PORT}" for n in NODES)
        for n in NODES:
            folder = here / f"n{n}"
            folder.mkdir()
            settings = folder / "server.properties"
            settings.write_text(
                _PROPERTIES.format(
                    n=n, host=host(n), port=PORT, controller_port=CONTROLLER_PORT, voters=voters,
                    folder=here, plain=f"{_SECURITY}.plain.PlainLoginModule required",
                    scram=f"{_SECURITY}.scram.ScramLoginModule required",
                    oauth=f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required"
                    ' unsecuredLoginStringClaim_sub="admin"',
                )
            )  # fmt: skip
            _do(*java_argv(java, kafka, "kafka.tools.StorageTool", "format"),
                "-t", "c3RhZ2luZy1jbHVzdGVyLQ", "-c", str(settings), "--add-scram",
                f"{_MECHANISM}=[name=logquake,password=logquake-secret]")  # fmt: skip
            for path in (folder, *folder.rglob("*")):
                os.chown(path, USER_ID, USER_ID)

    def _grant(self, admin: admins.AdminClient) -> None:
        prefixed = (
            (admins.ResourceType.TOPIC, "logquake-"),
            (admins.ResourceType.GROUP, "logquake-"),
            (admins.ResourceType.TRANSACTIONAL_ID, "logquake-"),
        )
        grants = [
            admins.AclBinding(
                kind,
                name,
                admins.ResourcePatternType.PREFIXED,
                "User:logquake",
                "*",
                admins.AclOperation.ALL,
                admins.AclPermissionType.ALLOW,
            )
            for kind, name in prefixed
        ]
        grants += [
            admins.AclBinding(
                admins.ResourceType.BROKER,
                "kafka-cluster",
                admins.ResourcePatternType.LITERAL,
                "User:logquake",
                "*",
                operation,
                admins.AclPermissionType.ALLOW,
            )
            for operation in (
                admins.AclOperation.DESCRIBE,
                admins.AclOperation.DESCRIBE_CONFIGS,
                admins.AclOperation.IDEMPOTENT_WRITE,
                admins.AclOperation.ALTER,
            )
        ]
        grants.append(
            admins.AclBinding(
                admins.ResourceType.TOPIC,
                FOREIGN,
                admins.ResourcePatternType.LITERAL,
                "User:owner",
                "*",
                admins.AclOperation.ALL,
                admins.AclPermissionType.ALLOW,
            )
        )
        for done in admin.create_acls(grants).values():
            done.result(20)


@contextmanager
def running(folder: Path) -> Iterator[Lab]:
    """Start the cluster, and end it after the `with` block."""
    lab = Lab(folder)
    try:
        lab.up()
        yield lab
    finally:
        lab.down()


def _do(*argv: str, cwd: Path | None = None, check: bool = True) -> str:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)
    assert not check or done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout


def main() -> None:
    """Start a cluster, or end it."""
    verb, folder = sys.argv[1], Path(sys.argv[2]).absolute()
    lab = Lab(folder)
    if verb == "up":
        lab.up()
        print(lab.file)  # noqa: T201 - what its user types next
    elif verb == "down":
        lab.down()
    else:
        told: Mapping[str, object] = {**lab.belongings(), "segments": None, "records": None}
        print(json.dumps(told, indent=1))  # noqa: T201 - as above


if __name__ == "__main__":
    main()
