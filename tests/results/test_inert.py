import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from results.wording.inert import inert


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_whatever_comes_nothing_is_left_that_cannot_be_seen(text: str) -> None:
    shown = inert(text)
    shown.encode("utf-8")
    assert not {unicodedata.category(each) for each in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_readable_text_stays_as_it_is() -> None:
    assert inert("grün 日本 <b>") == "grün 日本 <b>"


def test_escapes_bytes_and_directions_are_written_out() -> None:
    assert inert("\x1b[2J") == r"\x1b[2J"
    assert inert("a\u202eb") == r"a\u202eb"
    assert inert(b"\xff\xfe".decode("utf-8", "surrogateescape")) == r"\xff\xfe"
    assert inert("a\nb") == r"a\nb"
    assert inert("a\nb", keep="\n") == "a\nb"
