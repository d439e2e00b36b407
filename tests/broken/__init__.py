"""Records as broken brokers would have left them, and as correct ones may."""

from importlib import import_module

from tests.broken.corpus import CHANGES, Change

_MODULES = (
    "clients",
    "disks",
    "elections",
    "ends",
    "groups",
    "innocent_disks",
    "innocent_groups",
    "innocent_log",
    "innocent_replicas",
    "innocent_transactions",
    "losses",
    "payloads",
    "quorum",
    "replicas",
    "transactions",
)


def catalogue() -> list[Change]:
    """Return every change."""
    for name in _MODULES:
        import_module(f"tests.broken.{name}")
    return CHANGES
