import getpass
import platform
from importlib import metadata
from pathlib import Path

import pytest

from results.environment import Told, collect_environment, read_environment
from results.record.atomic import StoreError
from results.record.clock import RunClock
from results.record.paths import RunPaths
from results.record.plan import dump_plan, plan_from


def test_it_tells_on_what_a_run_ran(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "log" / "1")
    paths.root.mkdir(parents=True)
    paths.plan.write_text(dump_plan(plan_from({"hosts": "process"})), encoding="utf-8")
    collect_environment(
        paths,
        clock=RunClock(start_ns=42),
        told=Told(java="/opt/java", java_version="17", brokers={"version": "4.3.1"}),
        doctor={"nft": "ok"},
    )
    found = read_environment(paths.environment)
    assert found["logquake"] == metadata.version("logquake")
    assert found["python"] == platform.python_version()
    assert found["kernel"] == platform.release()
    assert (found["java"], found["java_version"]) == ("/opt/java", "17")
    assert found["brokers"] == {"version": "4.3.1"}
    assert (found["system"], found["hosts"]) == ("kafka:4.3.1", "process")
    assert found["clock_start_ns"] == 42
    assert found["doctor"] == {"nft": "ok"}
    libraries = found["libraries"]
    assert isinstance(libraries, dict)
    assert libraries["pyarrow"] == metadata.version("pyarrow")
    assert isinstance(found["cores"], int)
    assert found["cores"] >= 1


def test_kafkas_own_client_is_one_of_the_libraries_where_a_run_has_it(tmp_path: Path) -> None:
    def libraries(**values: object) -> dict[str, str]:
        paths = RunPaths(tmp_path / "log" / "1")
        paths.root.mkdir(parents=True, exist_ok=True)
        paths.plan.write_text(dump_plan(plan_from(values)), encoding="utf-8")
        return collect_environment(paths, clock=RunClock(start_ns=0)).libraries

    assert libraries(client_kind="java:4.3.1")["kafka-clients"] == "4.3.1"
    assert "kafka-clients" not in libraries(client_kind="librdkafka")
    assert "kafka-clients" not in libraries()


def test_it_does_not_name_the_machine_or_its_owner(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "log" / "1")
    collect_environment(paths, clock=RunClock(start_ns=0))
    found = {str(value) for value in read_environment(paths.environment).values()}
    assert not found & {platform.node(), getpass.getuser()}
    assert read_environment(paths.environment)["java"] is None


def test_a_missing_one_is_empty_and_a_damaged_one_is_told(tmp_path: Path) -> None:
    assert read_environment(tmp_path / "environment.json") == {}
    (tmp_path / "environment.json").write_text("[]", encoding="utf-8")
    with pytest.raises(StoreError, match="is not a JSON object"):
        read_environment(tmp_path / "environment.json")
