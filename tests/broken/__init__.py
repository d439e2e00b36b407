"""Records as broken brokers would have left them, and as correct ones may."""

from importlib import import_module

from tests.broken.corpus import CHANGES, Change
from tests.held import modules_with

_MODULES = (
    "bad_disks",
    "clients",
    "clients_only",
    "declarations",
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
    "numbered_twice",
    "outages",
    "payloads",
    "quorum",
    "remade",
    "replicas",
    "resources",
    "starts",
    "transactions",
)


def catalogue() -> list[Change]:
    """Return every change: those of this folder, and those that tests of single checks hold."""
    for name in _MODULES:
        import_module(f"tests.broken.{name}")
    for name in modules_with(r"@(broken|innocent)\(", folder="tests/checkers"):
        import_module(name)
    return CHANGES
