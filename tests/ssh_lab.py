"""Machines with sshd, made of namespaces, to test ssh hosts on this machine. Only for root.

    python -m tests.ssh_lab logquake run --hosts ssh:HOSTS.toml --time-limit 40

This command sets up three machines, runs the given command in their network, and removes them. In
the command, HOSTS.toml is replaced by the file that lists the machines. Each machine has its own
network, processes, mounts, host name, users and temporary files. The programs come from this
machine.

    hub: the command, bridge 10.82.0.254 --- veth --- lab1: sshd, eth0 10.82.0.1
                                         --- veth --- lab2: sshd, eth0 10.82.0.2
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.java import find_java
from cluster.protocol import ProcessId
from results.record.clock import wait_until

Setting = str | bool | int | float | Path
CLONE_NEWNET = 0x40000000
NETWORK = "10.82.0"
HUB_ADDRESS = f"{NETWORK}.254"
START_TIMEOUT_S = 30.0
USERS = ("helped", "plain", "nopython")
"""Ordinary users: one may run nft as root, one may not, and one has no Python."""
FIRST_UID = 64001
SSHD = shutil.which("sshd", path="/usr/sbin:/sbin:/usr/bin") or "/usr/sbin/sshd"
CONFIGURATION = """\
Port 22
HostKey /run/lab/host_key
AuthorizedKeysFile /run/lab/authorized_keys
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
Subsystem sftp internal-sftp
PidFile none
MaxStartups 100
MaxSessions 100
"""
MODERN = "PerSourcePenalties no\n"
"""An option since OpenSSH 9.8: a test with a wrong key must not lock out the next test."""
MACHINE = """\
hostname {name}
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/sshd /run/lab /run/lab/jdk
cp -r {folder}/. /run/lab
mount --bind {java} /run/lab/jdk
for file in passwd group shadow sudoers hosts; do mount --bind /run/lab/$file /etc/$file; done
mount -t tmpfs -o mode=700 tmpfs /root
mount -t tmpfs -o mode=755 tmpfs /home
mount -t tmpfs -o mode=1777 tmpfs /tmp
mkdir /run/full && mount -t tmpfs -o size=1m,mode=1777 tmpfs /run/full
for user in {users}; do mkdir -m 700 /home/$user; chown $user /home/$user; done
cd /
exec {sshd} -D -e -f /run/lab/sshd_config
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabMachine:
    """One machine of the lab.

    Attributes:
        name: The machine's host name.
        address: The machine's address on the lab's network.
        pid: A process outside of the machine, which ends with it. The process is in the machine's
            network namespace.
    """

    name: str
    address: str
    pid: int

    def state_of(self, process: ProcessId) -> str | None:
        """Return the state letter of a process, from this machine's kernel."""
        fields = self._stat(process.pid)
        return fields[0] if fields and int(fields[19]) == process.start_ticks else None

    def start_ticks(self, pid: int) -> int:
        """Return the start time of the process with this id; 0 if there is none."""
        fields = self._stat(pid)
        return int(fields[19]) if fields else 0

    def _stat(self, pid: int) -> list[str]:
        try:
            stat = Path(f"/proc/{self.init}/root/proc/{pid}/stat").read_text()
        except OSError:
            return []
        return stat.rpartition(")")[2].split()

    @property
    def init(self) -> int:
        """The process id, on this machine, of the lab machine's first process."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return int(children[0])

    @property
    def entrance(self) -> list[str]:
        """The start of a command line that runs its rest in the machine, as at its console."""
        return ["nsenter", f"--target={self.init}", "--net", "--mount", "--pid", "--uts", "--"]

    def run(self, *argv: str, check: bool = True) -> str:
        """Run a command in the machine; return its output."""
        done = subprocess.run([*self.entrance, *argv], capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise AssertionError(f"{argv} on {self.name}: {done.stderr}")
        return done.stdout


class Lab:
    """The machines with sshd, and the network that connects them. Use it with `with`.

    Args:
        folder: A private folder for keys and settings.
        count: The number of machines.

    Attributes:
        key: The private key of all users, on all machines.
        known_hosts: The file with the machines' host keys.
        machines: The machines, in order.
    """

    def __init__(self, folder: Path, count: int = 3) -> None:
        self.folder = folder
        self.key, self.known_hosts = folder / "key", folder / "known_hosts"
        self.machines: list[LabMachine] = []
        self._count = count
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "Lab":
        with contextlib.ExitStack() as stack:
            hub = stack.enter_context(_held(["unshare", "--net", "--", "sleep", "infinity"]))
            self._wait_apart(hub)
            self.hub = hub.pid
            with self.inside():
                _ip("link set lo up", "link add lab0 type bridge", "link set lab0 up")
                _ip(f"address add {HUB_ADDRESS}/24 dev lab0")
                new_key(self.key)
                for number in range(1, self._count + 1):
                    self._make_machine(number, stack)
                for machine in self.machines:
                    _wait_for_sshd(machine.address)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Move this thread, and the processes it starts, to the lab's network during the block."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            with Path(f"/proc/{self.hub}/ns/net").open() as hub:
                _enter(hub.fileno())
            yield
        finally:
            _enter(before)
            os.close(before)

    def hosts_file(self, name: str = "HOSTS.toml", *, count: int = 0, **settings: Setting) -> Path:
        """Write a hosts file with the machines; return its path.

        Args:
            name: The file's name.
            count: The number of machines; 0: all.
            settings: Settings for all hosts, which override or extend the lab's own.
        """
        common: dict[str, Setting] = {"user": "root", "key": "key", "known_hosts": "known_hosts"}
        common |= {"java": "/run/lab/jdk/bin/java", **settings}
        lines = [f"{key} = {_toml(value)}" for key, value in common.items()]
        for machine in self.machines[: count or None]:
            lines += ["[[hosts]]", f'name = "{machine.name}"', f'address = "{machine.address}"']
        path = self.folder / name
        path.write_text("\n".join(lines) + "\n")
        return path

    def _make_machine(self, number: int, stack: contextlib.ExitStack) -> None:
        name, address = f"lab{number}", f"{NETWORK}.{number}"
        folder = self.folder / name
        self._furnish(folder)
        public = (folder / "host_key.pub").read_text().split()
        with self.known_hosts.open("a") as known:
            known.write(f"{address} {public[0]} {public[1]}\n")
        script = MACHINE.format(
            name=name,
            folder=folder,
            java=find_java().path.resolve().parent.parent,
            users=" ".join(USERS),
            sshd=SSHD,
        )
        argv = ["unshare", "--net", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--"]
        errors = (folder / "sshd.log").open("ab")
        with errors:
            process = stack.enter_context(_held([*argv, "sh", "-ec", script], errors=errors))
        self._wait_apart(process)
        _ip(
            f"link add lab{number} type veth peer name eth0 netns {process.pid}",
            f"link set lab{number} master lab0 up",
        )
        inside = ["nsenter", f"--target={process.pid}", "--net", "--"]
        _ip("link set lo up", f"address add {address}/24 dev eth0", prefix=inside)
        _ip("link set eth0 up", prefix=inside)
        self.machines.append(LabMachine(name=name, address=address, pid=process.pid))

    def _furnish(self, folder: Path) -> None:
        folder.mkdir()
        new_key(folder / "host_key")
        shutil.copy(self.key.with_suffix(".pub"), folder / "authorized_keys")
        (folder / "sshd_config").write_text(CONFIGURATION + (MODERN if _is_modern() else ""))
        passwd, group, shadow = "root:x:0:0::/root:/bin/sh\n", "root:x:0:\n", "root:*:20000::::::\n"
        passwd += "sshd:x:64000:64000::/run/sshd:/usr/sbin/nologin\n"
        for uid, user in enumerate(USERS, FIRST_UID):
            shell = "/run/lab/poor-shell" if user == "nopython" else "/bin/sh"
            passwd += f"{user}:x:{uid}:{uid}::/home/{user}:{shell}\n"
            group += f"{user}:x:{uid}:\n"
            shadow += f"{user}:*:20000::::::\n"
        for name, text in {"passwd": passwd, "group": group, "shadow": shadow}.items():
            (folder / name).write_text(text)
        (folder / "hosts").write_text(f"127.0.0.1 localhost {folder.name}\n")
        (folder / "sudoers").write_text("helped ALL=(root) NOPASSWD: /usr/sbin/nft\n")
        (folder / "sudoers").chmod(0o440)
        _script(folder / "poor-shell", 'PATH=/run/lab/poor; export PATH; exec /bin/sh "$@"')
        (folder / "poor").mkdir()
        (folder / "poor" / "env").symlink_to("/usr/bin/env")
        _script(folder / "java11", "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2")

    def _wait_apart(self, process: subprocess.Popen[bytes]) -> None:
        own = Path("/proc/thread-self/ns/net").readlink()

        def is_apart() -> bool:
            assert process.poll() is None, "it ended at once"
            return Path(f"/proc/{process.pid}/ns/net").readlink() != own

        wait_until(is_apart, timeout_s=START_TIMEOUT_S, what="its network", interval_s=0.01)


def new_key(path: Path) -> None:
    """Create a key without a passphrase."""
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "throw-away", "-f", str(path)]
    subprocess.run(argv, check=True)


@contextlib.contextmanager
def _held(
    argv: Sequence[str], *, errors: "object | None" = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process during the block; kill it afterwards."""
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", *argv],  # It ends even with a killed test.
        stdin=subprocess.DEVNULL,
        stdout=errors or subprocess.DEVNULL,  # type: ignore[call-overload]  # a file
        stderr=errors or subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def _ip(*commands: str, prefix: Sequence[str] = ()) -> None:
    text = "".join(f"{command}\n" for command in commands)
    subprocess.run([*prefix, "ip", "-batch", "-"], input=text, text=True, check=True)


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _is_modern() -> bool:
    said = subprocess.run([SSHD, "-?"], capture_output=True, text=True, check=False).stderr
    version = said.partition("OpenSSH_")[2][:4].rstrip("p,")
    return version.replace(".", "").isdigit() and float(version) >= 9.8


def _toml(value: Setting) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else f'"{value}"'


def _wait_for_sshd(address: str) -> None:
    def answers() -> bool:
        done = subprocess.run(
            ["ssh-keyscan", "-t", "ed25519", address], capture_output=True, check=False
        )
        return b"ssh-ed25519" in done.stdout

    wait_until(answers, timeout_s=START_TIMEOUT_S, what=f"sshd at {address}", interval_s=0.05)


def main(argv: Sequence[str]) -> int:
    """Run a command inside a lab."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="ssh-lab-") as folder, Lab(Path(folder)) as lab:
        file = str(lab.hosts_file())
        command = [word.replace("HOSTS.toml", file) for word in argv] or ["sh"]
        with lab.inside():
            return subprocess.call(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
