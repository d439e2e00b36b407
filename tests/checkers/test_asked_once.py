"""What was asked about a group already is not worked out again."""

import pytest

from checkers import group as groups
from checkers.group import Group, once
from tests.checkers.partition_rows import group


def test_the_same_question_is_worked_out_once_for_each_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worked: list[tuple[Group, int, int]] = []

    @once
    def question(about: Group, offset: int, *, since_ns: int = -1) -> int:
        worked.append((about, offset, since_ns))
        return offset + since_ns

    one, other = group(), group()
    assert [question(one, 5), question(one, 5), question(one, 5, since_ns=2)] == [4, 4, 7]
    assert question(other, 5) == 4
    assert [each[1:] for each in worked] == [(5, -1), (5, 2), (5, -1)]
    assert worked[2][0] is other

    monkeypatch.setattr(groups, "_KEPT", 2)
    assert [question(one, 6), question(one, 5)] == [5, 4], "what is kept has a limit"
    assert len(worked) == 5
