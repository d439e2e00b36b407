"""Workers with another version of librdkafka than Logquake's own."""

import subprocess
import sys
from pathlib import Path

import pytest

from cluster.protocol import UserError
from harness.client_library import client_library
from results.record.plan import Plan, PlanError, plan_from
from workloads.fleet import environment_with

OLD = "2.3.0"
ASKED = "import confluent_kafka as c, pydantic; print(c.__version__, c.libversion()[0])"


def test_workers_are_given_the_version_that_the_plan_wants() -> None:
    fetched: list[str] = []
    library = client_library(Plan(client_version=OLD), fetched.append)
    assert library is not None
    argv = [sys.executable, "-P", "-c", ASKED]
    done = subprocess.run(
        argv, env=environment_with(library), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [OLD, OLD]
    assert client_library(Plan(client_version=OLD), fetched.append) == library
    assert fetched in ([f"fetching confluent-kafka {OLD}"], []), "it is fetched once"


def test_without_a_version_they_have_our_own() -> None:
    assert client_library(Plan()) is None
    assert environment_with(None) is None


def test_what_has_no_wheel_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"there is no confluent-kafka 2\.0\.99 with a wheel for"):
        client_library(Plan(client_version="2.0.99"))
    left = [each.name for each in (tmp_path / "logquake" / "clients").iterdir()]
    assert left == ["lock"]


@pytest.mark.parametrize("version", ["2.3", "newest", "2.3.0; rm"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(PlanError, match="client_version"):
        plan_from({"client_version": version})
