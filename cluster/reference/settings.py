"""The settings of a node from `server.properties`, and the settings of a topic.

The names are Kafka's, with underscores. Times are in milliseconds, as in Kafka. Unknown keys are
not an error: they are kept. So every file that a real broker accepts is also accepted here.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from cluster.files.checkpoints import properties
from cluster.reference.bugs import Bug

NANOSECONDS_A_MS = 1_000_000
_MOST_INT, _MOST_LONG = (1 << 31) - 1, (1 << 63) - 1
_LONG = frozenset(("flush_messages", "log_flush_interval_messages", "replica_lag_time_max_ms"))
_SMALLEST_SEGMENT = 14
"""The smallest segment before Kafka 4.0: `LegacyRecord.RECORD_OVERHEAD_V0`."""
_LEAST = {
    "node_id": -1, "broker_id": -1, "min_insync_replicas": 1, "default_replication_factor": 1,
    "num_partitions": 1, "segment_bytes": _SMALLEST_SEGMENT, "log_segment_bytes": _SMALLEST_SEGMENT,
    "flush_messages": 1, "log_flush_interval_messages": 1, "offsets_topic_num_partitions": 1,
    "offsets_topic_replication_factor": 1, "leader_imbalance_check_interval_seconds": 1,
    "controller_quorum_election_timeout_ms": 1, "controller_quorum_fetch_timeout_ms": 1,
    "controller_quorum_request_timeout_ms": 1, "broker_heartbeat_interval_ms": 1,
    "broker_session_timeout_ms": 1, "replica_socket_timeout_ms": 1,
    "replica_high_watermark_checkpoint_interval_ms": 1,
}  # fmt: skip
"""The minimum of each of these settings; for all other numbers, it is 0.

It is Kafka's minimum if Kafka has one, and otherwise the lowest number with which a node can still
work.
"""
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_TOPIC_KEY = re.compile(r"[a-z][a-z0-9.-]{0,79}")
"""The pattern of topic settings. Kafka refuses unknown keys. Here, a key of this form is kept."""
_ROLES = frozenset(("broker", "controller"))


class SettingsError(Exception):
    """An invalid setting. The message is one sentence with the key and the reason."""


class Truncation(StrEnum):
    """The rules by which a follower may truncate its log. Each was Kafka's rule at some time."""

    HIGH_WATERMARK = "high-watermark"
    """The rule before KIP-101: the follower truncates to its own high watermark."""
    LEADER_EPOCH_V0 = "leader-epoch-v0"
    """The rule of KIP-101: truncate to where the follower's last epoch ends in the leader's log."""
    LEADER_EPOCH = "leader-epoch"
    """The rule of KIP-279 and KIP-595: the follower truncates until both logs agree on an epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The settings of one topic. The defaults of topics are in a node's `Settings`."""

    min_insync_replicas: int = 1
    segment_bytes: int = 1 << 30
    max_message_bytes: int = 1048588
    flush_messages: int = (1 << 63) - 1
    unclean_leader_election_enable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A node's settings. `others` contains the keys of the file that have no field here."""

    node_id: int = -1
    broker_id: int = -1
    process_roles: str = "broker,controller"
    controller_quorum_voters: str = ""
    listeners: str = ""
    log_dirs: str = ""

    truncation: Truncation = Truncation.LEADER_EPOCH
    bugs: tuple[Bug, ...] = ()

    min_insync_replicas: int = 1
    default_replication_factor: int = 1
    num_partitions: int = 1
    unclean_leader_election_enable: bool = False
    auto_create_topics_enable: bool = True
    message_max_bytes: int = 1048588
    log_segment_bytes: int = 1 << 30
    log_flush_interval_messages: int = (1 << 63) - 1
    log_flush_offset_checkpoint_interval_ms: int = 60_000

    fetch_max_bytes: int = 55 << 20
    replica_lag_time_max_ms: int = 30_000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1 << 20
    replica_fetch_response_max_bytes: int = 10 << 20
    replica_fetch_backoff_ms: int = 1000
    replica_socket_timeout_ms: int = 30_000
    replica_high_watermark_checkpoint_interval_ms: int = 5000

    controller_quorum_election_timeout_ms: int = 1000
    controller_quorum_fetch_timeout_ms: int = 2000
    controller_quorum_election_backoff_max_ms: int = 1000
    controller_quorum_request_timeout_ms: int = 2000
    controller_quorum_retry_backoff_ms: int = 20
    metadata_log_max_record_bytes_between_snapshots: int = 20 << 20
    metadata_max_idle_interval_ms: int = 500
    broker_heartbeat_interval_ms: int = 2000
    broker_session_timeout_ms: int = 9000
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300

    controller_listener_names: str = "CONTROLLER"
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    group_initial_rebalance_delay_ms: int = 3000
    group_min_session_timeout_ms: int = 6000
    group_max_session_timeout_ms: int = 1_800_000

    others: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def topic(self, overrides: Mapping[str, str] | None = None) -> TopicSettings:
        """Return a topic's settings: its own, and the node's defaults for the rest.

        Args:
            overrides: The topic's own settings, by Kafka's names (`min.insync.replicas`).

        Raises:
            SettingsError: A value is invalid, or a key does not have the form of Kafka's keys.
        """
        for key in overrides or ():
            if not _TOPIC_KEY.fullmatch(key):
                raise SettingsError(f"Unknown topic config name: {key[:80]}")
        mine = TopicSettings(
            min_insync_replicas=self.min_insync_replicas,
            segment_bytes=self.log_segment_bytes,
            max_message_bytes=self.message_max_bytes,
            flush_messages=self.log_flush_interval_messages,
            unclean_leader_election_enable=self.unclean_leader_election_enable,
        )
        return replace(mine, **_taken(TopicSettings, overrides or {}))

    @property
    def lag_time_max_ns(self) -> int:
        """The time in nanoseconds that a follower may lag before it leaves the ISR."""
        return self.replica_lag_time_max_ms * NANOSECONDS_A_MS


def parsed(text: str) -> Settings:
    """Read the text of a `server.properties`.

    Raises:
        SettingsError: A value is invalid.
        DamagedFileError: A line is not `key=value`.
    """
    pairs = dict(properties(text))
    known = _taken(Settings, pairs)
    if known.get("node_id", -1) < 0:
        known["node_id"] = known.get("broker_id", -1)
    if (roles := known.get("process_roles")) is not None:
        _check_roles(roles)
    names = {_key(each.name) for each in fields(Settings)}
    rest = {key: value for key, value in pairs.items() if key not in names}
    return Settings(**known, others=MappingProxyType(rest))


def _key(name: str) -> str:
    return name.replace("_", ".")


def _taken(of: type[Settings] | type[TopicSettings], pairs: Mapping[str, str]) -> dict[str, Any]:
    """Return, by field name, the value of each known key, converted to the type of the field."""
    types = {_key(each.name): (each.name, each.type) for each in fields(of)}
    return {
        types[key][0]: _value(types[key][0], value.strip(), types[key][1])
        for key, value in pairs.items()
        if key in types
    }


def _check_roles(text: str) -> None:
    roles = {each.strip() for each in text.split(",")}
    if not roles <= _ROLES:
        raise SettingsError(
            f"process.roles cannot be {text!r}: use broker, controller, or broker,controller"
        )


def _value(name: str, text: str, kind: object) -> object:
    taken: Callable[[str], object]
    if kind is int:
        return _number(name, text)
    if kind is bool:
        taken = {"true": True, "false": False}.__getitem__
    elif isinstance(kind, type):
        taken = kind
    else:
        taken = _bugs
    try:
        return taken(text)
    except (ValueError, KeyError) as wrong:
        raise SettingsError(f"{_key(name)} cannot be {text!r}: use {_choice(kind)}") from wrong


def _number(name: str, text: str) -> int:
    least, most = _LEAST.get(name, 0), _MOST_LONG if name in _LONG else _MOST_INT
    if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
        raise SettingsError(
            f"{_key(name)} cannot be {text!r}: use a whole number from {least} to {most}"
        )
    return int(text)


def _bugs(text: str) -> tuple[Bug, ...]:
    """Read a list of bugs, which are separated by commas, as in Kafka's lists."""
    return tuple(Bug(each.strip()) for each in text.split(",") if each.strip())


def _choice(kind: object) -> str:
    if kind is bool:
        return "true or false"
    return ", ".join(Truncation if kind is Truncation else Bug)
