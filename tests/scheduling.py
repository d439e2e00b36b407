"""The scheduler of sessions with several workers; apart, because pytest-xdist need not be there."""

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling  # type: ignore[import-untyped]  # No types.

from tests.side_by_side import unit_of


class Units(LoadScopeScheduling):  # type: ignore[misc]  # Its base has no types.
    """Hands out units in the order of their first tests."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
