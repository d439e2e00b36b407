"""Plans from a file, from options, and one to start from."""

import secrets
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from cluster.protocol import Ability, UserError
from harness.drawing import with_drawn
from harness.reaching import refuse_unsaid, refuse_unsaid_system
from harness.scenarios.choices import cuts, refuse_another_story, values_behind
from harness.swarm import with_swarm
from nemesis.registry import KINDS, needs_of, unsuited_by
from nemesis.schedule import deal_schedule, names_families, played_families, unsupported
from results.record.plan import SIMULATED, Plan, PlanError, load_plan, plan_from
from results.record.systems import MODES
from results.record.tuning import tunes_a_broker, tunes_a_client
from workloads.clients.java.settings import refuse_java_settings
from workloads.clients.settings import check_client_settings
from workloads.registry import WORKLOADS

DISK_MB = 512
"""Of each node, where a fault fills disks: an hour of the default rate, and soon full."""

_CLIENTS = ", or write it into ~/.config/logquake/clients.toml and name its table with --clients"

_PLAN = """\
# A plan for `logquake run plan.toml`. Every line is optional; these are the defaults.
# Options of the command line win over this file; the whole plan is stored with the run.

name = "log"                 # The run's folder in the store.
system = "kafka:4.3.1"       # Any version from 0.11 on that is on Maven Central. Who keeps the
                             # metadata may follow: kafka:3.9.1:@MODES@.
                             # Or reference: Logquake's own cluster, without Java or network.
# bug = "ack-before-commit"  # Of the reference cluster: truncate-to-high-watermark,
                             # ack-before-commit, vote-not-persisted.
hosts = "auto"               # namespace (each broker a machine of its own), docker (containers),
                             # ssh:HOSTS.toml (your machines), process, or the best that works here.
# image = "apache/kafka:4.3.1"   # Of the containers: with Java, or of Kafka.
# disk_mb = 512              # Each node on a file system of its own. Default: if faults fill disks.
nodes = 3
replication = 3
min_insync = 2               # min.insync.replicas
heap_mb = 512                # Of each broker's JVM, in MiB.
topics = 2
partitions = 4               # Of each topic.

# Clients.
workload = "log"             # @WORKLOADS@
                             # With txn the default rate is 100.
load = "light"               # heavy: as much as brokers take, in full batches. Unless they are
                             # set, rate is then 0, concurrency 8 and sends_per_op 500.
rate = 500                   # Operations a second, all clients together; 0: as many as can be.
concurrency = 16             # Logical clients, each one operation at a time.
workers = 2                  # Processes that they live in.
acks = "all"                 # 0, 1 or all
# idempotence = true         # Default: with acks = "all".
# retries = 0                # Default: the client's own.
# client_version = "2.3.0"   # Of librdkafka, from 2.0.2 on. Default: Logquake's own.
# client_kind = "java"       # Kafka's own (java:VERSION: that version). Default: librdkafka.
group_protocol = "mixed"     # With groups: classic, consumer (KIP-848, Kafka 4.0 and later), or
                             # mixed: each group in its own way.
# linger_ms = 5              # Default: this and the next two are drawn from the seed.
# compression = "none"       # none, gzip, snappy, lz4, zstd, mixed
# payload_bytes = 100        # From 20 on, readers can tell any changed byte and the time stamp.
sends_per_op = 1
# keys = 16                  # With keyed: of each partition. Default: 8 to 32, from the seed.
delivery_timeout_s = 30      # Longer than the longest fault.
# clients = "lab"            # Your own settings of clients, by name in
                             # ~/.config/logquake/clients.toml: passwords and keys stand there.
transaction_timeout_s = 10   # With txn: after so long a transaction that nobody ended is aborted.
# after_timeout = "go-on"    # With txn: a client aborts and goes on with its producer after a
                             # time-out. delivery_timeout_s is then 2. Default: it discards it.

# Faults: dealt from the seed ...
# nemesis = ["partition", "kill", "pause"]   # Default: these, as far as hosts can. Others: splits,
                             # clients, network, stop, rolling, power-loss, wipe, bit-flip, disk,
                             # clock, leadership, topics, outage, keeper, keeper-links, double,
                             # stall, stall-clients, aftermath, remade, connections,
                             # client-connections, resources, slow-disks, disk-errors,
                             # lost-flushes;
                             # "all": all that work (logquake doctor).
nemesis_interval_s = 6
warmup_s = 5
time_limit_s = 60
# level = 0                  # 0 to 6: denser faults, more of them at once. See docs/faults.md.
# seed = 7                   # Default: a new one.
# swarm = true               # Settings that are left open are drawn from the seed, too.

# ... or written by hand (then nothing is dealt). Targets: n1, one, minority, majority, all,
# servers, leader, follower, leader(log-0,1), follower(log-0,1), isr(log-0,1), last-isr(log-0,1),
# controller.
# Kinds: isolate, halves, one-way-in, one-way-out, kill, stop, pause, power-loss, and all others
# of docs/faults.md.
# [[faults]]
# at_s = 10
# kind = "isolate"
# target = "leader(log-0,0)"
# hold_s = 6
# when = "leader epoch of log-0-0 >= 3"     # From at_s on, as soon as that is so.

judge = "contract"           # contract, strict, jepsen
# stop_on_violation = true   # Judge while the run goes on, and end it with the first violation.

# [broker]                   # Settings of the brokers, as `--set KEY=VALUE`.
# "replica.lag.time.max.ms" = "10000"

# [client]                   # Settings of the clients (librdkafka), as `--client KEY=VALUE`.
# "socket.keepalive.enable" = "true"

# [contents]                 # Of messages. Default: drawn from the seed.
# sizes = [[4000, 50]]       # One payload in 50 has 4000 bytes; the others have payload_bytes.
# headers = "mixed"          # Null values, repeated and empty names; plain: one header, seldom.
# batch_bytes = 16384        # Of producers (batch.size).
# max_in_flight = 5          # Requests of a producer without an answer.

[budgets]                    # Seconds from the last heal.
heal_s = 60                  # Of the heal itself: until all brokers are back.
unavailable_s = 30
election_s = 15
isr_s = 60
group_s = 30

[minimums]                   # Below these, nothing was tested and the verdict is unknown.
ok_sends = 100
ok_polls = 100
# confirmed_faults = 5       # Default: half of those scheduled.
"""
COMMENTED_PLAN = _PLAN.replace(
    "@WORKLOADS@",
    "\n                             # ".join(
        f"{name}: {each.brief}" for name, each in WORKLOADS.items()
    ),
).replace("@MODES@", MODES)


def assemble_plan(
    plan_file: Path | None,
    options: Mapping[str, object],
    *,
    broker: Mapping[str, str],
    client: Mapping[str, str],
) -> Plan:
    """Put a plan together: defaults, then the file, then the options; a new seed if none is given.

    Raises:
        PlanError: One sentence with the key, the value and the remedy.
    """
    values: dict[str, object] = {}
    if plan_file is not None:
        values = load_plan(plan_file, own=True)
        refuse_unsaid_system(plan_file, values, options)
        values = values_behind(values)
    plan = completed_plan(values, options, broker=broker, client=client)
    if plan_file is not None:
        refuse_unsaid(plan_file, plan, options)
    return plan


def completed_plan(
    values: Mapping[str, object],
    options: Mapping[str, object],
    *,
    broker: Mapping[str, str],
    client: Mapping[str, str],
) -> Plan:
    """Put a plan together: defaults, then values, then options; a new seed if none is given.

    Raises:
        PlanError: One sentence with the key, the value and the remedy.
    """
    merged = {**values, **{key: value for key, value in options.items() if value is not None}}
    for table, settings in (("broker", broker), ("client", client)):
        if settings:
            stored = merged.get(table, {})
            merged[table] = {**(stored if isinstance(stored, dict) else {}), **settings}
    merged.setdefault("seed", secrets.randbelow(1_000_000))
    merged = with_swarm(merged)
    plan = with_drawn(plan_from(merged), merged)
    refuse_what_does_not_tune(plan)
    refuse_another_story(plan)
    deal_schedule(plan, abilities=frozenset(Ability))  # Refuses a fault that there is not.
    return plan


def refuse_what_does_not_tune(plan: Plan) -> None:
    """Refuse settings that a stranger's plan must not hold, before anything is made of them.

    Raises:
        PlanError: One sentence with the key.
    """
    brokers = [("broker", plan.broker), *((f"node.{name}", own) for name, own in plan.node.items())]
    told = [
        *(f"client.{key}" for key in plan.client if not tunes_a_client(key)),
        *(f"{table}.{key}" for table, own in brokers for key in own if not tunes_a_broker(key)),
    ]
    if told:
        of_clients = told[0].startswith("client.")
        raise PlanError(
            f"the plan's {told[0]} cannot be set: a plan may be a stranger's, so it holds only"
            " settings that tune (results/record/tuning.py lists them), none that load code, name"
            f" a file or an address, or hold a secret; leave it out{_CLIENTS * of_clients}"
        )


def refuse_impossible(
    plan: Plan, *, abilities: Collection[Ability], why_not: Mapping[Ability, str] | None = None
) -> None:
    """Refuse what cannot be done here, before anything is started or shown.

    Args:
        plan: As asked for.
        abilities: What the hosts can do.
        why_not: Why they cannot do the rest, in sentences.

    Raises:
        PlanError: A setting of the clients that librdkafka refuses, or that the plan decides.
        UserError: A fault that these hosts cannot inject, or that a cluster of this size has no
            room for; disks of their own, or an image, where there can be none.
    """
    if plan.workload not in {*WORKLOADS, "script"}:
        raise PlanError(f"workload: {plan.workload!r} is none of {', '.join(WORKLOADS)}")
    (refuse_java_settings if plan.wants_java else check_client_settings)(plan)
    missing = unsupported(plan, abilities=abilities, why_not=why_not) + _too_small_for(
        plan, abilities
    )
    if missing:
        raise UserError(missing[0])
    if plan.image is not None and plan.hosts != "docker":
        raise UserError(
            f"image: only containers are made from {plan.image!r}, and hosts are {plan.hosts};"
            " add --hosts docker, or leave the image out"
        )
    if plan.scenario is not None and Ability.CUT not in abilities and cuts(plan):
        raise UserError(
            f"the story of {plan.scenario.name} cuts the network, which these hosts cannot do:"
            " logquake doctor says what keeps namespaces from working here; --system reference"
            " cuts its own links"
        )
    if plan.disk_mb is not None:
        _refuse_disks(plan, abilities, (why_not or {}).get(Ability.DISK, ""))


def refuse_a_run_without_faults(
    plan: Plan, *, abilities: Collection[Ability], dropped: Sequence[str]
) -> None:
    """Refuse a plan that wants faults, none of which can be played: the run would prove nothing.

    Args:
        plan: As asked for.
        abilities: What the hosts and the system can do.
        dropped: Why families are left out, in sentences.

    Raises:
        UserError: Not one family of its `nemesis` is left.
    """
    if plan.faults is not None or plan.scenario is not None or not plan.nemesis:
        return
    if not played_families(plan, abilities=abilities):
        raise UserError(
            f'no fault can be played: {dropped[0]}; to play without faults, add --nemesis ""'
        )


def _too_small_for(plan: Plan, abilities: Collection[Ability]) -> list[str]:
    """Return sentences about families that were named and that this plan has no room for.

    Left out they would leave a run with fewer faults than asked for, or none, that may be valid.
    """
    if plan.faults is not None or plan.scenario is not None:
        return []
    named = plan.nemesis if names_families(plan) else ()
    played = played_families(plan, abilities=abilities)
    return [
        f"nemesis {family!r}: {why}; leave it out"
        if (why := unsuited_by(family, plan))
        else f"nemesis {family!r}: no fault of it can come to be with nodes {plan.nodes} and"
        f" replication {plan.replication}; use more, or leave it out"
        for family in named
        if family not in played
    ]


def _refuse_disks(plan: Plan, abilities: Collection[Ability], why_not: str) -> None:
    if Ability.DISK not in abilities:
        because = f" ({why_not})" if why_not else ""
        raise UserError(
            f"disk_mb: these hosts cannot give each node a disk of its own{because}; leave it out,"
            " or use --hosts namespace"
        )
    if plan.scenario is not None:
        raise UserError(
            f"disk_mb: the story of {plan.scenario.name} copies the nodes' files while they run,"
            " and cannot on disks of their own; leave it out"
        )


def refuse_another_kafka(plan: Plan, *, image_has: str) -> None:
    """Refuse an image with a Kafka of its own that is not the one the plan is about.

    Args:
        plan: The run.
        image_has: The version that its image brings; empty: none.

    Raises:
        UserError: It is another one.
    """
    if plan.named.is_yours:
        return  # Of the image only its Java is used.
    if image_has and image_has != plan.kafka_version:
        raise UserError(
            f"the image {plan.image} has Kafka {image_has}, but the plan says {plan.system}; take"
            f" another image, or type: --system kafka:{image_has}"
        )


def as_played(plan: Plan, hosts: str, *, abilities: Collection[Ability]) -> Plan:
    """Return the plan that is stored: with the hosts that were chosen, and what they can do.

    So that the stored plan can be run again here as it is, with the same schedule. `all` has become
    the families that work here, and nodes have disks of their own if a fault is to fill them.
    """
    families = tuple(played_families(plan, abilities=abilities))
    if plan.faults is None:
        needs = [needs_of(family) for family in families]
    else:
        needs = [KINDS[fault.kind].needs for fault in plan.faults]
    # Simulated machines have a disk each anyway, of more than anybody fills.
    fills = hosts != SIMULATED and any(Ability.DISK in each for each in needs)
    disk_mb = DISK_MB if fills else None
    return plan.model_copy(
        update={
            "hosts": hosts,
            "nemesis": families,
            "drawn": plan.drawn or not names_families(plan),
            "disk_mb": plan.disk_mb or disk_mb,
        }
    )
