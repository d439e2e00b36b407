"""HOSTS.toml: what may stand in it, and what is said of what may not."""

import os
from pathlib import Path, PurePosixPath

import pytest

from cluster.hosts.choose import choose_hosts
from cluster.hosts.ssh.file import load_hosts
from cluster.hosts.ssh.paths import Abroad, named
from cluster.protocol import UserError

AS_ROOT = pytest.mark.needs("root")
TWO = '[[hosts]]\naddress = "10.0.0.1"\n[[hosts]]\naddress = "10.0.0.2"\n'


def file_of(folder: Path, text: str) -> Path:
    path = folder / "HOSTS.toml"
    path.write_text(text)
    return path


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    first, second = load_hosts(file_of(tmp_path, f'user = "root"\n{TWO}'))
    assert (first.name, first.address, first.ssh_address) == ("n1", "10.0.0.1", "10.0.0.1")
    assert (second.name, second.port, second.java) == ("n2", 22, "java")
    assert first.known_hosts == str(Path.home() / ".ssh" / "known_hosts")
    assert (first.key, first.folder, first.ttl_s) == (None, "~/.logquake", 60)


def test_what_stands_for_one_host_wins_over_what_stands_for_all(tmp_path: Path) -> None:
    text = 'user = "kafka"\nkey = "k"\nport = 22\nsudo = true\n' + TWO
    text += 'user = "root"\nkey = "/etc/k"\nport = 2222\nsudo = false\nssh = "far"\nname = "b"\n'
    first, second = load_hosts(file_of(tmp_path, text))
    assert (first.user, first.key, first.sudo) == ("kafka", str(tmp_path / "k"), True)
    assert (second.user, second.key, second.sudo) == ("root", "/etc/k", False)
    assert (second.ssh_address, second.port, second.name) == ("far", 2222, "b")


@pytest.mark.parametrize("whose", ["writable", pytest.param("foreign", marks=AS_ROOT)])
def test_hosts_of_a_file_that_can_be_a_strangers_are_never_asked(
    whose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("it logged in")

    monkeypatch.setattr("cluster.hosts.ssh.hosts.examine_host", asked)
    file = file_of(tmp_path, TWO)
    if whose == "writable":
        file.chmod(0o666)
    else:
        os.chown(file, 65534, 65534)
    with pytest.raises(UserError, match="another user may have written it: make it yours"):
        choose_hosts(f"ssh:{file}", nodes=("n1", "n2"))
    (tmp_path / "link.toml").symlink_to(file)
    with pytest.raises(UserError, match="another user may have written it"):
        load_hosts(tmp_path / "link.toml")


def test_root_needs_no_sudo_and_others_do(tmp_path: Path) -> None:
    assert not load_hosts(file_of(tmp_path, f'user = "root"\n{TWO}'))[0].sudo
    assert load_hosts(file_of(tmp_path, f'user = "kafka"\n{TWO}'))[0].sudo


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hosts = [", "is not valid TOML"),
        ("", "hosts is missing"),
        ("hosts = []", "hosts cannot be []"),
        ('[[hosts]]\nname = "a"', "hosts.1.address is missing"),
        (TWO + "colour = 1", "an unknown key 'hosts.2.colour'"),
        (TWO + "port = 70000", "hosts.2.port cannot be 70000"),
        (TWO + 'port = "22"', "hosts.2.port cannot be '22'"),
        ("ttl_s = 1\n" + TWO, "ttl_s cannot be 1"),
        ('folder = "here"\n' + TWO, "folder cannot be 'here'"),
        ('folder = "/a,b"\n' + TWO, "folder cannot be '/a,b'"),
        ('[[hosts]]\naddress = "n1.example.org"', "address of host 1 cannot be 'n1.example.org'"),
        (TWO.replace("0.2", "0.1"), "two hosts have the address 10.0.0.1"),
    ],
)
def test_what_is_wrong_is_named_in_one_sentence(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(UserError) as caught:
        load_hosts(file_of(tmp_path, text))
    assert why in str(caught.value)
    assert "HOSTS.toml" in str(caught.value)
    if "TOML:" not in str(caught.value):
        assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.toml cannot be read: No such file"):
        choose_hosts(f"ssh:{tmp_path}/none.toml")


def test_paths_are_turned_into_the_host_s_and_other_text_is_not() -> None:
    jar = Path("/cache/kafka-clients.jar")
    abroad = Abroad(
        here=Path("/store/run"), there=PurePosixPath("/srv/lq/1"), software={jar: "clients.jar"}
    )
    assert abroad.text("-cp /cache/kafka-clients.jar:/store/run/x.jar") == (
        "-cp /srv/lq/1/software/clients.jar:/srv/lq/1/x.jar"
    )
    assert abroad.text("-Dconf=file:/store/run/nodes/n1/l.xml") == (
        "-Dconf=file:/srv/lq/1/nodes/n1/l.xml"
    )
    for other in (
        "/store/run2",
        "/store/run-2/x",
        "/store/run.old",
        "/cache/kafka-clients.jar.md5",
    ):
        assert abroad.text(other) == other
    assert abroad.path(Path("/usr/bin/java")) == PurePosixPath("/usr/bin/java")


def test_paths_in_java_s_properties_are_found_as_they_are_written_there() -> None:
    abroad = Abroad(here=Path("/store/a=b:ü"), there=PurePosixPath("/srv/lq/1"))
    assert abroad.text("log.dirs=/store/a\\=b\\:\\u00fc/nodes/n1/data") == (
        "log.dirs=/srv/lq/1/nodes/n1/data"
    )


def test_two_files_of_one_name_get_two() -> None:
    names = named({}, (Path("/a/x.jar"), Path("/b/x.jar"), Path("/b/y.jar")))
    assert len(set(names.values())) == 3
    assert names[Path("/b/y.jar")] == "y.jar"
    assert named(names, (Path("/a/x.jar"),)) == names
