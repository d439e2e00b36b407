"""Records as broken brokers would have left them, and as correct ones may."""

from importlib import import_module

from tests.broken.corpus import CHANGES, Change

_MODULES = (
    "losses",
    "clients",
    "ends",
    "innocent_log",
)


def catalogue() -> list[Change]:
    """Return every change."""
    for name in _MODULES:
        import_module(f"tests.broken.{name}")
    return CHANGES
