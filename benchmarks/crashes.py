"""Kills Logquake at random moments, on all kinds of hosts, and lists the remains after `heal`.

Run it from the repository, as root for containers and ssh hosts:

    python -m benchmarks.crashes --times 50 --hosts namespace,process,docker,ssh --seed 1
    python -m benchmarks.crashes --times 0 --runs 4 --hosts namespace,docker
    python -m benchmarks.crashes --times 0 --hosts namespace --nemesis stall,remade,disk-errors

`--times` crashes the small harness of `tests/cluster_hosts/small_harness.py`. `--runs` crashes
whole runs of `logquake run`, at a random moment between start and judgement. `--nemesis` adds one
run for each family of faults, which is killed while a fault of that family is active. Containers
use an image with this machine's Java. Each ssh host is a network namespace with an sshd. The exit
code is 1 if anything was left behind.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random

from harness.heal import heal_store
from nemesis.ledger import open_entries
from results.record.clock import pause_until, stopwatch_s, wait_until
from results.record.milestones import Milestone, load_milestones
from results.record.plan import Plan
from results.store import Store
from tests.cluster_hosts.crashes import crash, litter_in, places, remains
from tests.docker_lab import daemon
from tests.images.java_image import java_image
from tests.ssh_lab import Lab

COMMAND = "from harness.cli import main; main()"
MILESTONES = 12
"""The number of milestones in a complete run. The last one comes before the judgement."""
BETWEEN_S = 6.0
LIMIT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    times: int
    runs: int
    families: tuple[str, ...]
    hosts: tuple[str, ...]
    image: str | None
    seed: int
    store: Path
    lab: Lab | None
    lease_s: float

    def network_of(self, hosts: str) -> AbstractContextManager[None]:
        """Enter the network of the ssh hosts for ssh runs. For other hosts do nothing.

        This machine's containers cannot be reached from the network of the ssh hosts.
        """
        return self.lab.inside() if self.lab and hosts.startswith("ssh:") else nullcontext()


def main() -> None:
    """Crash Logquake as requested, and print a line for each crash.

    Exit with 1 if anything is left.
    """
    with ExitStack() as undo:
        asked = _asked(undo)
        failed = _crashed(asked)
    sys.exit(1 if failed else 0)


def _crashed(asked: _Asked) -> int:
    failed = 0
    seen: Counter[str] = Counter()
    for number in range(asked.times):
        rng = Random(f"{asked.seed}/{number}")
        plan = _plan(asked, asked.hosts[number % len(asked.hosts)], rng)
        with (
            asked.network_of(plan.hosts),
            tempfile.TemporaryDirectory(prefix="logquake-crashes-", dir=asked.store) as folder,
        ):
            lease_s = asked.lease_s if plan.hosts.startswith("ssh:") else 0
            killed = crash(plan, Path(folder), rng, lease_s=lease_s)
        seen[f"{plan.hosts.partition(':')[0]}: {killed.part} during {killed.deed}"] += 1
        failed += bool(killed.left)
        print(f"{number + 1}: {plan.hosts}: {killed.part} during {killed.deed}, healed in"
              f" {killed.took_s:.2f} s ({len(killed.healed.done)} things done):"
              f" {'; '.join(killed.left) or 'nothing left'}", flush=True)  # fmt: skip
    runs = [*[""] * asked.runs, *asked.families]
    for number, family in enumerate(runs):
        hosts = asked.hosts[number % len(asked.hosts)]
        with asked.network_of(hosts):
            rng = Random(f"{asked.seed}/run/{number}")
            failed += _crashed_run(asked, hosts, rng, family=family)
    print(f"{asked.times + len(runs)} crashes, {failed} of them left something")
    for what, count in sorted(seen.items()):
        print(f"  {count} {what}")
    return failed


def _crashed_run(asked: _Asked, hosts: str, rng: Random, *, family: str) -> bool:
    """Kill a real run at a random moment, heal it, and return whether anything was left behind.

    Args:
        asked: The options of the command.
        hosts: The kind of hosts of the run.
        rng: The source of the random moment.
        family: The run is killed while a fault of this family is active. If empty, the run is
            killed at any time.
    """
    with tempfile.TemporaryDirectory(prefix="logquake-crashes-", dir=asked.store) as name:
        folder = Path(name)
        line = [sys.executable, "-c", COMMAND, "run", "--store", str(folder / "runs")]
        line += ["--hosts", hosts, "--seed", str(rng.randrange(1 << 20))]
        line += ["--nemesis", family, "--time-limit", "60"] if family else ["--time-limit", "15"]
        line += ["--image", asked.image] if asked.image and hosts == "docker" else []
        with (folder / "said").open("wb") as said:
            run = subprocess.Popen(
                line, env={**os.environ, **places(folder)}, stdout=said, stderr=said,
                start_new_session=True, cwd=folder / "cwd",
            )  # fmt: skip
        moment = rng.randint(0, MILESTONES)
        wait_until(
            lambda: (
                run.poll() is not None
                or (bool(_undos(folder)) if family else len(_milestones(folder)) >= moment)
            ),
            timeout_s=LIMIT_S,
            what=f"a fault of {family}" if family else f"{moment} milestones",
        )
        pause_until(stopwatch_s() + rng.uniform(0, BETWEEN_S))
        after = [each.name for each in _milestones(folder)][-1:]
        undos = [f"to undo: {', '.join(sorted(_undos(folder)))}"] if family else []
        run.kill()
        run.wait()
        plan = _plan(asked, hosts, rng)
        healed = heal_store(folder / "runs")
        left = [
            each for paths in Store(folder / "runs").runs() for each in remains(plan, paths, {})
        ]
        left += [*healed.failed, *litter_in(folder)]
        print(
            f"a run of {hosts}, killed after {' '.join([*after, *undos]) or 'its start'}:"
            f" {'; '.join(left) or 'nothing left'}",
            flush=True,
        )
    return bool(left)


def _milestones(folder: Path) -> list[Milestone]:
    runs = Store(folder / "runs").runs()
    return load_milestones(runs[0].milestones) if runs else []


def _undos(folder: Path) -> set[str]:
    """Return the kinds of undo steps that are still open in the run's ledger."""
    runs = Store(folder / "runs").runs()
    entries = open_entries(runs[0].ledger) if runs else ()
    return {undo.kind for entry in entries for undo in entry.undo}


def _plan(asked: _Asked, hosts: str, rng: Random) -> Plan:
    image = asked.image if hosts == "docker" else None
    disk_mb = rng.choice([None, 64]) if hosts == "namespace" else None
    return Plan(hosts=hosts, image=image, disk_mb=disk_mb)


def _asked(undo: ExitStack) -> _Asked:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=50, help="crashes of the small harness")
    parser.add_argument("--runs", type=int, default=0, help="crashes of whole runs")
    parser.add_argument("--nemesis", default="", help="families, each of one more whole run")
    parser.add_argument("--hosts", default="namespace,process", help="kinds, in turn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--lease", type=float, default=0, help="ssh hosts undo all themselves after so many seconds"
    )
    parser.add_argument("--store", type=Path, default=None, help="where the victims' folders lie")
    given = parser.parse_args()
    kinds = given.hosts.split(",")
    image = lab = None
    if "docker" in kinds:
        undo.enter_context(daemon())
        image = java_image()
    if "ssh" in kinds:
        folder = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="logquake-lab-")))
        lab = undo.enter_context(Lab(folder))
        lease = {"ttl_s": given.lease} if given.lease else {}
        kinds[kinds.index("ssh")] = f"ssh:{lab.hosts_file(**lease)}"
    return _Asked(
        times=given.times,
        runs=given.runs,
        families=tuple(filter(None, given.nemesis.split(","))),
        hosts=tuple(kinds),
        image=image,
        seed=given.seed,
        store=given.store or Path(tempfile.gettempdir()),
        lab=lab,
        lease_s=given.lease,
    )


if __name__ == "__main__":
    main()
