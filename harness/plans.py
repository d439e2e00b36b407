"""Build plans from a file and from options, and offer a commented plan to start from."""

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
"""The disk size of each node if a fault fills disks. Such a disk is large enough for an hour at the
default rate, but small enough that a fault fills it soon."""

_CLIENTS = (
    ", or write the setting into ~/.config/logquake/clients.toml and name its table with --clients"
)

_LINES = (
    "# A plan for `logquake run plan.toml`. Every line is optional; these are the defaults.",
    "# Options of the command line replace values of this file.",
    "# The run stores the whole plan.",
    "",
    'name = "log"                 # The run\'s folder in the store.',
    'system = "kafka:4.3.1"       # Any version from 0.11 on that Maven Central has.',
    "                             # A mode may follow, after a colon. The modes:",
    "                             # @MODES@.",
    "                             # Or reference: Logquake's own cluster, without Java or network.",
    '# bug = "ack-before-commit"  # A bug of the reference cluster: truncate-to-high-watermark,',
    "                             # ack-before-commit, vote-not-persisted.",
    'hosts = "auto"               # namespace (each broker on its own machine), docker',
    "                             # (containers), ssh:HOSTS.toml (your machines), process, or",
    "                             # auto: the best that works.",
    '# image = "apache/kafka:4.3.1"   # The image of the containers, with Java or with Kafka.',
    "# disk_mb = 512              # Each node gets its own file system. Default: only if faults",
    "                             # fill disks.",
    "nodes = 3",
    "replication = 3",
    "min_insync = 2               # min.insync.replicas",
    "heap_mb = 512                # The heap of each broker's JVM, in MiB.",
    "topics = 2",
    "partitions = 4               # The partitions of each topic.",
    "",
    "# Clients.",
    'workload = "log"             # @WORKLOADS@',
    "                             # With txn the default rate is 100.",
    'load = "light"               # heavy: as much as brokers accept, in full batches. The',
    "                             # defaults are then rate 0, concurrency 8 and sends_per_op",
    "                             # 500.",
    "rate = 500                   # Operations a second of all clients together; 0: no limit.",
    "concurrency = 16             # Logical clients; each has one operation at a time.",
    "workers = 2                  # The processes of the clients.",
    'acks = "all"                 # 0, 1 or all',
    '# idempotence = true         # Default: true with acks = "all".',
    "# retries = 0                # Default: the client's own.",
    '# client_version = "2.3.0"   # The version of librdkafka, from 2.0.2 on. Default:',
    "                             # Logquake's own.",
    '# client_kind = "java"       # Kafka\'s own client (java:VERSION: that version). Default:',
    "                             # librdkafka.",
    'group_protocol = "mixed"     # For groups: classic, consumer (KIP-848, Kafka 4.0 and',
    "                             # later), or mixed: each group has one of the two.",
    "# linger_ms = 5              # Default for this and the next two: random, from the seed.",
    '# compression = "none"       # none, gzip, snappy, lz4, zstd, mixed',
    "# payload_bytes = 100        # From 20 on, readers detect any changed byte and timestamp.",
    "sends_per_op = 1",
    "# keys = 16                  # With keyed: keys of each partition. Default: 8 to 32, from",
    "                             # the seed.",
    "delivery_timeout_s = 30      # Longer than the longest fault.",
    '# clients = "lab"            # Your own client settings, by name in',
    "                             # ~/.config/logquake/clients.toml. That file holds passwords",
    "                             # and keys.",
    "transaction_timeout_s = 10   # With txn: the coordinator aborts a transaction after this",
    "                             # time.",
    '# after_timeout = "go-on"    # With txn: after a timeout, a client aborts, and keeps its',
    "                             # producer. delivery_timeout_s is then 2. Default: the client",
    "                             # discards it.",
    "",
    "# Faults, chosen at random from the seed ...",
    '# nemesis = ["partition", "kill", "pause"]   # Default: these, if the hosts can play them.',
    "                             # Others: splits, clients, network, stop, rolling,",
    "                             # power-loss, wipe, bit-flip, disk, clock, leadership,",
    "                             # topics, outage, keeper, keeper-links, double, stall,",
    "                             # stall-clients, aftermath, remade, connections,",
    "                             # client-connections, resources, slow-disks, disk-errors,",
    '                             # lost-flushes; "all": all that work here (logquake doctor).',
    "nemesis_interval_s = 6",
    "warmup_s = 5",
    "time_limit_s = 60",
    "# level = 0                  # 0 to 6: denser faults, more of them at once. See",
    "                             # docs/faults.md.",
    "# seed = 7                   # Default: a new one.",
    "# swarm = true               # Settings without a value are chosen at random from the",
    "                             # seed, too.",
    "",
    "# ... or written by hand. Then no random faults come.",
    "# Targets: n1, one, minority, majority, all, servers, leader, follower, leader(log-0,1),",
    "# follower(log-0,1), isr(log-0,1), last-isr(log-0,1), controller.",
    "# Kinds: isolate, halves, one-way-in, one-way-out, kill, stop, pause, power-loss, and all",
    "# others of docs/faults.md.",
    "# [[faults]]",
    "# at_s = 10",
    '# kind = "isolate"',
    '# target = "leader(log-0,0)"',
    "# hold_s = 6",
    '# when = "leader epoch of log-0-0 >= 3"     # From at_s on, once this condition holds.',
    "",
    'judge = "contract"           # contract, strict, jepsen',
    "# stop_on_violation = true   # Judge during the run, and end it with the first violation.",
    "",
    "# [broker]                   # Settings of the brokers, as `--set KEY=VALUE`.",
    '# "replica.lag.time.max.ms" = "10000"',
    "",
    "# [client]                   # Settings of librdkafka, as `--client KEY=VALUE`.",
    '# "socket.keepalive.enable" = "true"',
    "",
    "# [contents]                 # The contents of messages. Default: random, from the seed.",
    "# sizes = [[4000, 50]]       # One payload in 50 has 4000 bytes; the others have",
    "                             # payload_bytes.",
    '# headers = "mixed"          # Null values, repeated and empty names; plain: one header,',
    "                             # rarely.",
    "# batch_bytes = 16384        # The producers' batch.size.",
    "# max_in_flight = 5          # A producer's requests without an answer.",
    "",
    "[budgets]                    # Seconds from the last heal.",
    "heal_s = 60                  # For the heal itself, until all brokers are back.",
    "unavailable_s = 30",
    "election_s = 15",
    "isr_s = 60",
    "group_s = 30",
    "",
    "[minimums]                   # With less than this, the verdict is unknown.",
    "ok_sends = 100",
    "ok_polls = 100",
    "# confirmed_faults = 5       # Default: half of those scheduled.",
)
_PLAN = "\n".join((*_LINES, ""))
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
    """Return a plan from defaults, then a file, then options; choose a new seed if none is set.

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
    """Return a plan from the defaults, then values, then options; choose a new seed if none is set.

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
    deal_schedule(plan, abilities=frozenset(Ability))  # Raises an error for an unknown fault.
    return plan


def refuse_what_does_not_tune(plan: Plan) -> None:
    """Raise an error for unsafe settings in a plan, because a stranger may have written the plan.

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
            f"the plan's {told[0]} cannot be set: a plan can come from another user, so only tuning"
            " settings are allowed (results/record/tuning.py lists them). A plan cannot"
            " load code, name a file or an address, or contain a secret. Remove the"
            f" setting{_CLIENTS * of_clients}"
        )


def refuse_impossible(
    plan: Plan, *, abilities: Collection[Ability], why_not: Mapping[Ability, str] | None = None
) -> None:
    """Raise an error for a plan that cannot be played here, before anything is started or shown.

    Args:
        plan: The plan that the user asks for.
        abilities: The abilities of the hosts.
        why_not: Sentences that explain why the hosts lack the other abilities.

    Raises:
        PlanError: librdkafka refuses a client setting, or another key of the plan determines that
            setting.
        UserError: The cluster is too small for a fault, or the hosts do not support a fault,
            separate disks or an image.
    """
    if plan.workload not in {*WORKLOADS, "script"}:
        raise PlanError(
            f"workload: {plan.workload!r} does not exist; use one of {', '.join(WORKLOADS)}"
        )
    (refuse_java_settings if plan.wants_java else check_client_settings)(plan)
    missing = unsupported(plan, abilities=abilities, why_not=why_not) + _too_small_for(
        plan, abilities
    )
    if missing:
        raise UserError(missing[0])
    if plan.image is not None and plan.hosts != "docker":
        raise UserError(
            f"image: {plan.image!r} is for containers, but hosts is {plan.hosts}; add --hosts"
            " docker, or remove the image"
        )
    if plan.scenario is not None and Ability.CUT not in abilities and cuts(plan):
        raise UserError(
            f"the scenario {plan.scenario.name} cuts the network, but these hosts cannot do this:"
            " logquake doctor shows why namespaces do not work on this machine. Or use --system"
            " reference, whose nodes cut their own links"
        )
    if plan.disk_mb is not None:
        _refuse_disks(plan, abilities, (why_not or {}).get(Ability.DISK, ""))


def refuse_a_run_without_faults(
    plan: Plan, *, abilities: Collection[Ability], dropped: Sequence[str]
) -> None:
    """Raise an error if no fault of a plan can be played, because the run would prove nothing.

    Args:
        plan: The plan that the user asks for.
        abilities: The abilities of the hosts and the system.
        dropped: Sentences that explain why some families are left out.

    Raises:
        UserError: No family of the plan's `nemesis` can be played.
    """
    if plan.faults is not None or plan.scenario is not None or not plan.nemesis:
        return
    if not played_families(plan, abilities=abilities):
        raise UserError(
            f'no fault is possible: {dropped[0]}; to run without faults, add --nemesis ""'
        )


def _too_small_for(plan: Plan, abilities: Collection[Ability]) -> list[str]:
    """Return a sentence for each fault family in the plan that needs a larger cluster.

    Without this error, the run would have fewer faults than the user wants, or none at all. Such a
    run could still be valid.
    """
    if plan.faults is not None or plan.scenario is not None:
        return []
    named = plan.nemesis if names_families(plan) else ()
    played = played_families(plan, abilities=abilities)
    return [
        f"nemesis {family!r}: {why}; remove this family"
        if (why := unsuited_by(family, plan))
        else f"nemesis {family!r}: none of its faults is possible with nodes {plan.nodes} and"
        f" replication {plan.replication}; increase these values, or remove this family"
        for family in named
        if family not in played
    ]


def _refuse_disks(plan: Plan, abilities: Collection[Ability], why_not: str) -> None:
    if Ability.DISK not in abilities:
        because = f" ({why_not})" if why_not else ""
        raise UserError(
            f"disk_mb: these hosts cannot give each node its own disk{because}; remove disk_mb,"
            " or use --hosts namespace"
        )
    if plan.scenario is not None:
        raise UserError(
            f"disk_mb: the scenario {plan.scenario.name} copies the nodes' files during the run,"
            " which is not possible with separate disks; remove disk_mb"
        )


def refuse_another_kafka(plan: Plan, *, image_has: str) -> None:
    """Raise an error if the image has another version of Kafka than the plan.

    Args:
        plan: The run's plan.
        image_has: The Kafka version in the image; an empty string if the image has no Kafka.

    Raises:
        UserError: The versions differ.
    """
    if plan.named.is_yours:
        return  # The run uses only the image's Java.
    if image_has and image_has != plan.kafka_version:
        raise UserError(
            f"the image {plan.image} has Kafka {image_has}, but the plan has {plan.system}; use"
            f" another image, or add --system kafka:{image_has}"
        )


def as_played(plan: Plan, hosts: str, *, abilities: Collection[Ability]) -> Plan:
    """Return the plan to store. It has the chosen hosts, and only faults that they can play.

    So a rerun of the stored plan on this machine gets the same schedule. Instead of `all`, the
    stored plan lists the families that work here. If a fault fills disks, nodes get disks of their
    own.
    """
    families = tuple(played_families(plan, abilities=abilities))
    if plan.faults is None:
        needs = [needs_of(family) for family in families]
    else:
        needs = [KINDS[fault.kind].needs for fault in plan.faults]
    # Each simulated machine has its own disk, larger than any fault fills.
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
