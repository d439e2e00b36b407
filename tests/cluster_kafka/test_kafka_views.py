"""A view of a cluster: what asking its nodes side by side comes to."""

import pytest
from kio.static.protocol import RequestPayload

from cluster.kafka.admin import Admin
from cluster.kafka.wire import WireError
from cluster.protocol import Endpoint

_NOWHERE = Endpoint(host="127.0.0.1", broker_port=1, controller_port=1)


@pytest.mark.parametrize(
    ("bad", "raised"), [(WireError("silent"), None), (IndexError("a bug"), IndexError)]
)
def test_only_the_silence_of_nodes_is_no_view(
    bad: Exception, raised: type[Exception] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*_words: object, **_named: object) -> RequestPayload:
        raise bad

    admin = Admin(dict.fromkeys(("n1", "n2"), _NOWHERE), lambda _node: True)
    monkeypatch.setattr(admin._lines, "ask", ask)
    try:
        if raised is None:
            assert admin.view() is None
        else:
            with pytest.raises(raised, match="a bug"):
                admin.view()
    finally:
        admin.close()
