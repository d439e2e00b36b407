"""Ssh hosts on real sshd: bad input, lost connections, dead harnesses, strangers' things."""

import itertools
import pwd
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from cluster.hosts.abilities import abilities_of
from cluster.hosts.choose import choose_hosts, make_hosts
from cluster.hosts.ssh.disk import SftpDisk
from cluster.hosts.ssh.heal import heal_ssh
from cluster.hosts.ssh.hosts import SshHosts
from cluster.hosts.ssh.line import SshLine
from cluster.hosts.ssh.run import FILE
from cluster.protocol import (
    CLIENTS,
    Ability,
    CanAudit,
    ClusterError,
    Command,
    HasSoftware,
    TellsRoom,
    UserError,
)
from results.record.clock import wait_until
from results.record.paths import RunPaths
from tests.machine import tun_opens
from tests.ssh_lab import HUB_ADDRESS, Lab, LabMachine, new_key

pytestmark = [pytest.mark.everything, pytest.mark.ssh]
ROOTS_HOME = pwd.getpwnam("root").pw_dir
NODES = ["n1", "n2", "n3"]
LINKS = list(itertools.permutations(NODES, 2))
LEASE_S = 5
PLACES = ("/root", "/home", "/tmp", "/run/full")  # noqa: S108 - of a lab's machine
HARNESS = """
import signal, sys
from pathlib import Path
from cluster.hosts.choose import make_hosts
from cluster.protocol import Command
folder = Path(sys.argv[2])
hosts = make_hosts(sys.argv[1], ["n1", "n2", "n3"], folder / "processes.jsonl")
hosts.up()
hosts.cut("c", [("n1", "n2"), ("n2", "n1"), ("n3", "n1")])
for node in ("n1", "n2", "n3"):
    own = Command(argv=["sh", "-c", "setsid sleep 1000 & exec sleep 1000"], log=folder / "log",
                  cwd=folder)
    hosts.send_signal(hosts.spawn(node, own), signal.SIGSTOP)
(folder / "ready").touch()
signal.pause()
"""


@contextmanager
def hosts_of(file: Path, folder: Path, nodes: int = 3) -> Iterator[SshHosts]:
    hosts = make_hosts(f"ssh:{file}", NODES[:nodes], folder / "processes.jsonl")
    assert isinstance(hosts, SshHosts)
    try:
        hosts.up()
        yield hosts
    finally:
        hosts.down()


def everything_on(machine: LabMachine) -> Mapping[str, str]:
    """What a run could leave on a machine, seen from its console."""
    return {
        "processes": machine.run("ps", "-eo", "user,args", "--no-headers"),
        "nft": machine.run("nft", "list", "ruleset"),
        "files": machine.run("find", *PLACES),
        # Those of containers on this machine come and go with other tests.
        "mounts": machine.run("grep", "-v", "/docker/", "/proc/mounts"),
        "links": machine.run("ip", "-brief", "link"),
    }


def sessions_gone(machine: LabMachine) -> bool:
    listed = machine.run("ps", "-eo", "args", "--no-headers").splitlines()
    return not any("[listener]" not in line for line in listed if line.startswith("sshd"))


def all_on(lab: Lab) -> list[Mapping[str, str]]:
    """The same of all machines, once no one is logged in any more."""
    for machine in lab.machines:
        wait_until(partial(sessions_gone, machine), timeout_s=30, what="the logins' end")
    return [
        {
            # What has ended, and init has not taken note of yet, is nothing that was left.
            what: "\n".join(
                line for line in text.splitlines() if not re.search("ps -eo|<defunct>", line)
            )
            for what, text in everything_on(machine).items()
        }
        for machine in lab.machines
    ]


def arrived(hosts: SshHosts) -> set[tuple[str, str]]:
    return {link for link, arrives in hosts.probe(LINKS).items() if arrives}


def sleeper(folder: Path) -> Command:
    return Command(argv=["sleep", "1000"], log=folder / "log", cwd=folder)


@pytest.fixture
def dead_harness(lab: Lab, tmp_path: Path) -> Iterator[RunPaths]:
    """The folder of a harness that was killed while it held three hosts with faults in force."""
    killed = killed_harness(lab.hosts_file("dead.toml"), tmp_path)
    yield killed
    heal_ssh(lab.folder / "dead.toml", killed)


def killed_harness(file: Path, store: Path) -> RunPaths:
    """Kill a harness; return its run's folder, which lies in a store as every run's does."""
    paths = RunPaths(store / "log" / "20261121T220000Z-7")
    paths.root.mkdir(parents=True)
    argv = [sys.executable, "-c", HARNESS, f"ssh:{file}", str(paths.root)]
    with subprocess.Popen(argv) as harness:
        wait_until((paths.root / "ready").exists, timeout_s=60, what="the harness")
        harness.kill()
    return paths


OTHER_RUN = "0123456789abcdef"
STRANGERS = f"""
for table in logquake logquake_{OTHER_RUN[:8]} other
do nft "add table ip $table; add chain ip $table cut_c; add chain ip $table drop_marked"
done
mkdir -p {ROOTS_HOME}/.logquake/{OTHER_RUN}/nodes/n1 {ROOTS_HOME}/.logquake/somebody
cp /bin/sleep {ROOTS_HOME}/.logquake/{OTHER_RUN}/java
setsid sleep 1000 >/dev/null 2>&1 &
LOGQUAKE_RUN={OTHER_RUN} setsid {ROOTS_HOME}/.logquake/{OTHER_RUN}/java 1000 >/dev/null 2>&1 &
"""
"""What others have on a host, another run of ours among them: called as what is a run's own."""


@contextmanager
def strangers(machine: LabMachine) -> Iterator[None]:
    machine.run("sh", "-ec", STRANGERS)
    for name in ("sleep", "java"):  # The shell has ended; its children may not be these yet.
        wait_until(
            lambda: machine.run("pgrep", "-x", name, check=False),  # noqa: B023 - called at once
            timeout_s=30,
            what=name,
        )
    try:
        yield
    finally:
        machine.run(
            "sh", "-c", f"nft flush ruleset; pkill 'sleep|java'; rm -r {ROOTS_HOME}/.logquake"
        )
        wait_until(
            lambda: not machine.run("pgrep", "sleep|java", check=False),
            timeout_s=30,
            what="the strangers' end",
        )


def test_heal_and_the_end_of_a_lease_touch_nobody_else_s(lab: Lab, tmp_path: Path) -> None:
    file = lab.hosts_file("soon.toml", ttl_s=LEASE_S)
    with strangers(lab.machines[0]):
        before = all_on(lab)
        patient = lab.hosts_file("patient.toml", ttl_s=600)
        assert heal_ssh(patient, killed_harness(patient, tmp_path / "healed"))
        assert all_on(lab) == before
        killed_harness(file, tmp_path / "left")
        assert all_on(lab) != before
        wait_until(lambda: all_on(lab) == before, timeout_s=LEASE_S + 60, what="the lease's end")


def test_hosts_leave_nothing_and_touch_nobody_else_s(lab: Lab, tmp_path: Path) -> None:
    with strangers(lab.machines[0]):
        before = all_on(lab)
        with hosts_of(lab.hosts_file(), tmp_path) as hosts:
            assert isinstance(hosts, CanAudit)
            hosts.cut("c", [("n2", "n1")])
            hosts.spawn("n1", sleeper(tmp_path))
            traces = " ".join(hosts.traces())
            assert "n1: nft table logquake_" in traces
            assert f"n1: folder {ROOTS_HOME}/.logquake/" in traces
            assert "n1: process" in traces
        assert hosts.traces() == {}
        assert not (tmp_path / FILE).exists(), "heal has nothing to ask the hosts for"
        assert all_on(lab) == before


def test_cuts_are_of_links_between_nodes_and_never_of_the_harness(lab: Lab, tmp_path: Path) -> None:
    with hosts_of(lab.hosts_file(), tmp_path) as hosts:
        assert arrived(hosts) == set(LINKS)
        hosts.cut("first", [("n1", "n2"), ("n3", "n2")])
        hosts.cut("second", [("n1", "n2")])
        assert arrived(hosts) == set(LINKS) - {("n1", "n2"), ("n3", "n2")}
        assert min(hosts.dropped("first").values()) > 0
        hosts.join("first")
        assert arrived(hosts) == set(LINKS) - {("n1", "n2")}
        hosts.join("second")
        hosts.cut("all", LINKS)
        assert arrived(hosts) == set()
        rules = lab.machines[0].run("nft", "list", "ruleset")
        assert lab.machines[1].address in rules
        assert HUB_ADDRESS not in rules
        with pytest.raises(ClusterError, match="cannot be cut off"):
            hosts.cut("clients", [(CLIENTS, "n1")])
        hosts.join("all")
        assert arrived(hosts) == set(LINKS)


def test_an_ordinary_user_cuts_through_sudo(lab: Lab, tmp_path: Path) -> None:
    before = all_on(lab)
    with hosts_of(lab.hosts_file("helped.toml", user="helped"), tmp_path) as hosts:
        hosts.cut("c", [("n1", "n2")])
        assert arrived(hosts) == set(LINKS) - {("n1", "n2")}
        process = hosts.spawn("n1", sleeper(tmp_path))
        assert lab.machines[0].run("ps", "-o", "user=", "-p", str(process.pid)).strip() == "helped"
    assert all_on(lab) == before


RP_FILTER = "/proc/sys/net/ipv4/conf/all/rp_filter"


def test_bad_links_are_tried_on_each_host_and_what_it_lacks_is_named(lab: Lab) -> None:
    def why_not(file: Path) -> str:
        return abilities_of(f"ssh:{file}")[Ability.SHAPE]

    before = all_on(lab)
    assert "on lab1 only nft may be run as root" in why_not(lab.hosts_file("h.toml", user="helped"))
    if not tun_opens():  # The machines of the lab have this one's devices.
        assert re.match(
            "on lab. links cannot be degraded .*/dev/net/tun", why_not(lab.hosts_file())
        )
        return
    assert why_not(lab.hosts_file()) == ""
    machine = lab.machines[1]
    machine.run("mount", "--bind", "/dev/null", "/dev/net/tun")
    try:
        assert why_not(lab.hosts_file()).startswith("on lab2 links cannot be degraded (")
    finally:
        machine.run("umount", "/dev/net/tun")
    machine.run("sh", "-c", f"echo 1 > {RP_FILTER}")
    try:
        assert "rp_filter is strict" in why_not(lab.hosts_file())
    finally:
        machine.run("sh", "-c", f"echo 0 > {RP_FILTER}")
    assert all_on(lab) == before


def test_software_and_configuration_are_brought_and_files_are_fetched(
    lab: Lab, tmp_path: Path
) -> None:
    jars = [tmp_path / "jars" / which / "same.jar" for which in ("a", "b")]
    for jar in jars:
        jar.parent.mkdir(parents=True)
        jar.write_text(jar.parent.name)
    jars[1].rename(tmp_path / "kept.jar")
    jars[1].symlink_to(tmp_path / "kept.jar")
    classes = tmp_path / "classes"
    (classes / "kafka").mkdir(parents=True)
    (classes / "kafka" / "Kafka.class").write_text("c")
    paths = RunPaths(tmp_path)
    folder = paths.node("n2")
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "meta.properties").write_text("formatted here")
    (folder / "server.properties").write_text(f"log.dirs={folder}/data\nother={tmp_path}2\n")
    with hosts_of(lab.hosts_file(), tmp_path) as hosts:
        assert isinstance(hosts, HasSoftware)
        assert "java" in str(hosts.java("n2"))
        hosts.provide("n2", [*jars, classes])
        assert not (folder / "data").exists(), "nobody takes it for what the broker wrote"
        script = f"cat {jars[0]} {jars[1]} {classes}/kafka/Kafka.class"
        script += f" && cd {folder}/data && echo log > 0.log && touch i.index"
        argv = ["sh", "-c", script]
        hosts.spawn("n2", Command(argv=argv, log=folder / "out.log", cwd=folder))
        disk = hosts.disk("n2")
        wait_until(lambda: "data/i.index" in map(str, disk.files()), timeout_s=30, what="files")
        assert disk.read("out.log") == b"abc", "two jars of one name are two"
        settings = disk.read("server.properties").decode()
        data = settings.splitlines()[0].removeprefix("log.dirs=")
        assert data.startswith(f"{ROOTS_HOME}/.logquake/")
        assert lab.machines[1].run("cat", f"{data}/0.log") == "log\n"
        assert settings.splitlines()[1] == f"other={tmp_path}2", "another folder is another"
        hosts.fetch("n2")
        hosts.fetch("n2")
    assert (folder / "data" / "0.log").read_text() == "log\n"
    assert (folder / "data" / "meta.properties").read_text() == "formatted here"
    assert not (folder / "data" / "i.index").exists(), "it can be made again"


def test_logs_of_a_run_that_fails_are_brought_before_its_hosts_forget_them(
    lab: Lab, tmp_path: Path
) -> None:
    folder = RunPaths(tmp_path).node("n2")
    folder.mkdir(parents=True)
    with hosts_of(lab.hosts_file(), tmp_path) as hosts:
        assert isinstance(hosts, HasSoftware)
        hosts.provide("n2", [])
        log = folder / "logs" / "server.log"
        argv = ["sh", "-c", "echo 'it does not start'; mkdir data; echo record > data/0.log"]
        failed = hosts.spawn("n2", Command(argv=argv, log=log, cwd=folder))
        wait_until(lambda: hosts.state_of(failed) in {None, "Z"}, timeout_s=30, what="its end")
    assert log.read_text() == "it does not start\n"
    assert not (folder / "data").exists(), "nobody takes it for what the broker wrote"


def test_a_closed_connection_is_taken_up_again_and_faults_stay_in_force(
    lab: Lab, tmp_path: Path
) -> None:
    with hosts_of(lab.hosts_file(), tmp_path) as hosts:
        process = hosts.spawn("n1", sleeper(tmp_path))
        hosts.send_signal(process, signal.SIGSTOP)
        hosts.cut("c", [("n2", "n1")])
        for machine in lab.machines:
            end_logins(machine)
        assert hosts.state_of(process) == "T"
        assert arrived(hosts) == set(LINKS) - {("n2", "n1")}
        hosts.join("c")
        assert hosts.send_signal(process, signal.SIGCONT)
        assert arrived(hosts) == set(LINKS)
        assert [str(path) for path in hosts.disk("n1").files()] == []


def test_a_request_on_a_lost_connection_is_done_once(lab: Lab, tmp_path: Path) -> None:
    with hosts_of(lab.hosts_file(), tmp_path, nodes=1) as hosts:
        disk = hosts.disk("n1")
        assert isinstance(disk, SftpDisk)
        folder = disk.folder
        lab.machines[0].run("mkdir", "-p", str(folder))
        script = f"echo once >> {folder}/said; sleep 2; echo done"
        ending = subprocess.Popen(
            [
                *lab.machines[0].entrance,
                "sh",
                "-c",
                f"until [ -e {folder}/said ]; do sleep 0.1; done; pkill -f 'sshd: root@notty'",
            ]
        )
        assert hosts.machine("n1").run(["sh", "-c", script]) == "done\n"
        ending.wait()
        assert lab.machines[0].run("cat", f"{folder}/said") == "once\n"


def test_a_network_that_is_away_for_less_than_the_lease_changes_nothing(
    lab: Lab, tmp_path: Path
) -> None:
    with hosts_of(lab.hosts_file(), tmp_path, nodes=1) as hosts:
        process = hosts.spawn("n1", sleeper(tmp_path))
        with silence(lab.machines[0]):
            line = hosts.machines["n1"].line
            assert isinstance(line, SshLine)
            wait_until(lambda: line.losses, timeout_s=60, what="the line to be found broken")
        assert hosts.state_of(process) == "S"


def test_a_network_that_is_away_for_longer_is_undone_by_the_host(lab: Lab, tmp_path: Path) -> None:
    before = all_on(lab)
    with hosts_of(lab.hosts_file("soon.toml", ttl_s=LEASE_S), tmp_path) as hosts:
        hosts.spawn("n1", sleeper(tmp_path))
        hosts.cut("c", [("n2", "n1")])
        machine = lab.machines[0]
        with silence(machine):
            wait_until(
                lambda: not machine.run("sh", "-c", "ls -A /root"), timeout_s=60, what="the undo"
            )
            assert "cut_c" not in machine.run("nft", "list", "ruleset")
        with pytest.raises(ClusterError, match="the host has undone everything"):
            hosts.machine("n1").run(["true"])
        assert arrived_between(hosts, "n2", "n3"), "the others go on"
    assert all_on(lab) == before


def test_a_dead_harness_is_undone_by_the_hosts_without_heal(lab: Lab, tmp_path: Path) -> None:
    file = lab.hosts_file("soon.toml", ttl_s=LEASE_S)
    killed = killed_harness(file, tmp_path)

    def untouched() -> bool:
        return all(
            not machine.run("ls", "-A", "/root")
            and not machine.run("nft", "list", "ruleset")
            and "sleep" not in machine.run("ps", "-eo", "args", "--no-headers")
            for machine in lab.machines
        )

    assert not untouched()
    wait_until(untouched, timeout_s=LEASE_S + 40, what="the end of the lease")
    assert not any("LOGQUAKE" in marks(machine) for machine in lab.machines)
    assert heal_ssh(file, killed) == []


def test_heal_undoes_a_dead_harness_at_once_and_once(lab: Lab, dead_harness: RunPaths) -> None:
    said = heal_ssh(lab.folder / "dead.toml", dead_harness)
    for node in NODES:
        assert any(sentence.startswith(f"{node}: killed ") for sentence in said)
        assert any(f"{node}: deleted the nft table logquake_" in sentence for sentence in said)
        assert any(f"{node}: removed {ROOTS_HOME}/.logquake/" in sentence for sentence in said)
    for machine in lab.machines:
        assert machine.run("ls", "-A", "/root") == ""
        assert machine.run("nft", "list", "ruleset") == ""
        assert "LOGQUAKE" not in marks(machine)
    assert heal_ssh(lab.folder / "dead.toml", dead_harness) == []


def test_heal_tells_who_cannot_be_reached_and_heals_the_others(
    lab: Lab, dead_harness: RunPaths
) -> None:
    known = lab.known_hosts.read_text()
    lab.known_hosts.write_text("\n".join(known.splitlines()[1:]) + "\n")
    try:
        with pytest.raises(ClusterError, match=r"host key of lab1 .* is unknown"):
            heal_ssh(lab.folder / "dead.toml", dead_harness)
    finally:
        lab.known_hosts.write_text(known)
    assert heal_ssh(lab.folder / "dead.toml", dead_harness)


def marks(machine: LabMachine) -> str:
    """The environments of all processes."""
    return machine.run("sh", "-c", "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; true")


def end_logins(machine: LabMachine) -> None:
    machine.run("pkill", "-f", "sshd: root@notty")


def arrived_between(hosts: SshHosts, *nodes: str) -> bool:
    return all(hosts.probe(list(itertools.permutations(nodes, 2))).values())


@contextmanager
def silence(machine: LabMachine) -> Iterator[None]:
    """Drop all that a machine hears from the harness, without a word."""
    chain = "add chain ip hush i { type filter hook input priority 0; }"
    rule = f"add rule ip hush i ip saddr {HUB_ADDRESS} drop"
    machine.run("nft", f"add table ip hush; {chain}; {rule}")
    try:
        yield
    finally:
        machine.run("nft", "delete table ip hush")


def refused(file: Path, nodes: int = 3) -> str:
    """Return why hosts are refused: one sentence."""
    with pytest.raises(UserError) as caught:
        choose_hosts(f"ssh:{file}", nodes=NODES[:nodes])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_hosts_that_can_take_part_are_chosen(lab: Lab) -> None:
    file = lab.hosts_file()
    choice = choose_hosts(f"ssh:{file}", nodes=NODES)
    assert choice.hosts == f"ssh:{file}"
    assert "3 hosts" in choice.why


def test_an_unknown_host_key_is_refused_and_not_added(lab: Lab, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    known.touch()
    assert "host key of lab1" in refused(lab.hosts_file("u.toml", known_hosts=known))
    assert "is unknown" in refused(lab.hosts_file("u.toml", known_hosts=known))
    assert known.read_text() == ""
    missing = lab.hosts_file("u.toml", known_hosts=tmp_path / "none")
    assert "ssh-keyscan" in refused(missing)


def test_a_changed_host_key_is_refused(lab: Lab, tmp_path: Path) -> None:
    new_key(tmp_path / "other")
    kind, key, _ = (tmp_path / "other.pub").read_text().split()
    known = tmp_path / "known_hosts"
    known.write_text(f"{lab.machines[0].address} {kind} {key}\n")
    said = refused(lab.hosts_file("c.toml", count=1, known_hosts=known), nodes=1)
    assert "the key has changed, or another machine answers" in said
    assert known.read_text() == f"{lab.machines[0].address} {kind} {key}\n"


def test_a_wrong_key_is_refused(lab: Lab, tmp_path: Path) -> None:
    new_key(tmp_path / "other")
    said = refused(lab.hosts_file("w.toml", key=tmp_path / "other"))
    assert f"refuses the login of root with the key {tmp_path / 'other'}" in said
    assert "cannot be read" in refused(lab.hosts_file("w.toml", key=tmp_path / "none"))
    (tmp_path / "text").write_text("no key")
    assert "lab1" in refused(lab.hosts_file("w.toml", key=tmp_path / "text"))


def test_an_unreachable_host_is_named(lab: Lab) -> None:
    said = refused(lab.hosts_file("p.toml", port=2222))
    assert "lab1 (10.82.0.1 port 2222) cannot be reached" in said


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"user": "plain"}, "plain may not run nft as root on lab1"),
        ({"user": "plain", "sudo": False}, "nft does not work there"),
        ({"user": "nopython"}, "lab1 has no python3"),
        ({"java": "/none/java"}, "lab1 has no Java"),
        ({"java": "/run/lab/java11"}, "lab1 has Java 11, which is too old"),
        ({"folder": "/run/full/here"}, "the disk of /run/full/here on lab1 is full"),
        ({"user": "helped", "folder": f"{ROOTS_HOME}/x"}, "helped cannot create"),
    ],
)
def test_what_a_host_lacks_is_named(lab: Lab, settings: Mapping[str, str | bool], why: str) -> None:
    before = all_on(lab)
    assert why in refused(lab.hosts_file("bad.toml", **settings))  # type: ignore[arg-type]  # none is count
    assert all_on(lab) == before


def test_fewer_hosts_than_nodes_are_refused(lab: Lab, tmp_path: Path) -> None:
    file = lab.hosts_file("few.toml", count=2)
    assert "has 2 hosts, but the nodes n1, n2, n3 need 3" in refused(file)
    with pytest.raises(UserError, match="2 hosts"):
        make_hosts(f"ssh:{file}", NODES, tmp_path / "processes.jsonl")


def test_an_address_that_is_another_s_is_refused(lab: Lab) -> None:
    file = lab.hosts_file("a.toml", count=1)
    text = file.read_text().replace('address = "10.82.0.1"', 'ssh = "10.82.0.1"\naddress = "{}"')
    file.write_text(text.format("10.82.0.77"))
    assert "lab1 does not have the address 10.82.0.77" in refused(file, nodes=1)


def test_a_host_that_fails_leaves_nothing_on_the_others(lab: Lab, tmp_path: Path) -> None:
    before = all_on(lab)
    known = lab.known_hosts.read_text().splitlines()
    (tmp_path / "known").write_text("\n".join(known[:2]) + "\n")
    file = lab.hosts_file("half.toml", known_hosts=tmp_path / "known")
    hosts = make_hosts(f"ssh:{file}", NODES, tmp_path / "processes.jsonl")
    with pytest.raises(UserError, match="host key of lab3"):
        hosts.up()
    assert all_on(lab) == before
    assert not (tmp_path / FILE).exists()


def test_the_room_on_each_host_is_told_while_it_gets_less(lab: Lab, tmp_path: Path) -> None:
    machine = lab.machines[0]
    machine.run("mkdir", "/run/small")
    machine.run("mount", "-t", "tmpfs", "-o", "size=600m", "tmpfs", "/run/small")
    try:
        file = lab.hosts_file("small.toml", count=1, folder="/run/small/lq")
        with hosts_of(file, tmp_path, nodes=1) as hosts:
            assert isinstance(hosts, TellsRoom)
            wait_until(lambda: hosts.room().get("n1"), timeout_s=30, what="a word of the host")
            assert 500 << 20 < hosts.room()["n1"] < 600 << 20
            machine.run("fallocate", "-l", "599m", "/run/small/somebody")
            wait_until(lambda: hosts.room()["n1"] < 1 << 20, timeout_s=30, what="less")
        assert hosts.room() == {}
    finally:
        machine.run("umount", "/run/small")
        machine.run("rmdir", "/run/small")


def test_a_full_disk_at_the_upload_is_named_and_nothing_stays(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "big.jar").write_bytes(bytes(8 << 20))
    machine = lab.machines[0]
    machine.run("mkdir", "/run/small")
    machine.run("mount", "-t", "tmpfs", "-o", "size=600m", "tmpfs", "/run/small")
    try:
        file = lab.hosts_file("small.toml", count=1, folder="/run/small/lq")
        with hosts_of(file, tmp_path, nodes=1) as hosts:
            machine.run("fallocate", "-l", "598m", "/run/small/somebody")
            with pytest.raises(UserError, match="disk of /run/small/lq on lab1 is full"):
                hosts.provide("n1", [tmp_path / "big.jar"])
        assert machine.run("ls", "-A", "/run/small") == "somebody\n"
    finally:
        machine.run("umount", "/run/small")
        machine.run("rmdir", "/run/small")
