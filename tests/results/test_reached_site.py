"""The site as others reach it: what it says of that, and that none of them keeps it from others."""

import socket
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import requests

from results.site.guard import is_local
from tests.machine import needs
from tests.results.serving import served

HALF_OPEN = 300
WAIT_S = 10


def test_26_the_printed_address_is_answered_and_who_can_read_is_said(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with served(tmp_path, log, "--host", "0.0.0.0") as (url, _):  # noqa: S104 - for a moment
        assert requests.get(url, timeout=WAIT_S).status_code == 200
        said = log.read_text(encoding="utf-8")
    assert (
        "anyone who can reach 0.0.0.0 can read all runs, because the site has no passwords" in said
    )


@needs("ipv6")
def test_26_an_address_of_ipv6_is_answered_too(tmp_path: Path) -> None:
    with served(tmp_path, tmp_path / "log", "--host", "::") as (url, _):
        assert urlsplit(url).hostname == "::1"
        assert requests.get(url, timeout=WAIT_S).status_code == 200


def test_a_site_of_this_machine_alone_warns_of_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with served(tmp_path, log) as (url, _):
        assert requests.get(url, timeout=WAIT_S).status_code == 200
    assert "everybody" not in log.read_text(encoding="utf-8")
    assert [is_local(each) for each in ("127.0.0.2", "::1", "localhost")] == [True] * 3
    assert [is_local(each) for each in ("::", "192.0.2.1", "example.org")] == [False] * 3


def test_27_requests_that_never_end_keep_nobody_from_the_site(tmp_path: Path) -> None:
    with served(tmp_path, tmp_path / "log") as (url, _), ExitStack() as open_ones:
        place = urlsplit(url)
        for _ in range(HALF_OPEN):
            half = socket.create_connection((place.hostname, place.port), timeout=WAIT_S)
            open_ones.enter_context(half).sendall(b"GET / HTTP/1.1\r\nHost: loc")
        assert requests.get(url, timeout=WAIT_S).status_code == 200
