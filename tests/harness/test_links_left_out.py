"""Bad links, as an ordinary user: dealt where the TUN device opens, else refused with the remedy.

The device of the machine stays as it is: root gives the command one of another mode, or none, in a
mount namespace.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster_hosts.hubs import EVERYBODYS, REPOSITORY, as_ordinary_user
from tests.machine import needs

pytestmark = pytest.mark.namespaces
ROOTS, ABSENT, AS_IT_IS = 0o600, None, -1
MAIN = "from harness.cli import main; main()"
OPENS = "from tests.machine import tun_opens; print(tun_opens())"
RUN = ("run", "--dry-run", "--system", "reference", "--hosts", "namespace", "--time-limit", "600")
SAYS = {
    ROOTS: "/dev/net/tun belongs to uid 0, mode 0600); run as root, or let every user open",
    ABSENT: "there is no /dev/net/tun); type as root: modprobe tun",
}


class User:
    """An ordinary user whom root makes, or the one who runs the tests."""

    def __init__(self, scratch: Path, device: int | None) -> None:
        self._scratch, self._device = scratch, device

    def runs(self, script: str, *words: str) -> "subprocess.CompletedProcess[str]":
        argv = [sys.executable, "-c", script, *words]
        if self._device != AS_IT_IS:
            argv = as_ordinary_user(argv, self._scratch, tun=self._device)
        environment = {"HOME": str(self._scratch), "PYTHONPATH": str(REPOSITORY)}
        return subprocess.run(
            argv,
            env={**os.environ, **environment, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "500"},
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )


def _of_root(device: int | None, name: str) -> object:
    return pytest.param(device, id=name, marks=[needs("root"), pytest.mark.night])


@pytest.mark.night
@pytest.mark.parametrize(
    "device",
    [
        AS_IT_IS,
        _of_root(EVERYBODYS, "everybody's"),
        _of_root(ROOTS, "root's"),
        _of_root(ABSENT, "absent"),
    ],
)
def test_bad_links_are_dealt_or_refused_with_the_remedy(device: int | None, tmp_path: Path) -> None:
    user = User(tmp_path, device)
    opens = user.runs(OPENS).stdout == "True\n"
    assert not (opens and device in SAYS)
    everything = user.runs(MAIN, *RUN, "--nemesis", "all")
    assert everything.returncode == 0, everything.stderr
    sentences = [line for line in everything.stdout.splitlines() if "left out" in line]
    named = user.runs(MAIN, *RUN, "--nemesis", "network")
    findings = user.runs(MAIN, "doctor").stdout
    if opens:
        assert not [each for each in sentences if "network" in each]
        assert named.returncode == 0, named.stderr
        assert "works  shaping of links" in findings
        return
    (sentence,) = (each for each in sentences if "network" in each)
    families, _, why_not = sentence.partition(" are left out: ")
    assert families == "faults of network, stall and stall-clients"
    assert why_not.startswith("shaping of links (TUN device)")
    assert named.returncode == 254
    (refusal,) = named.stderr.splitlines()
    assert refusal.startswith(
        "logquake: nemesis 'network' needs hosts that can degrade the network"
    )
    reason = SAYS.get(device, "/dev/net/tun")
    assert reason in sentence
    assert reason in refusal
    why, _, remedy = reason.partition("); ")
    assert why in findings
    assert remedy in findings
