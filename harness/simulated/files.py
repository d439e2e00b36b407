"""What the simulated disks hold, as a node's folder of the run: `data/` and `logs/`."""

import time
from pathlib import Path

from cluster.reference.process.journal import SERVER_LOG, STATE_CHANGE_LOG, STATE_CHANGES
from cluster.reference.simulator.host import Host

WALL_CLOCK_S = 1_700_000_000
"""Virtual time zero on the nodes' wall clocks: any would do, and it is the same in every run."""


def collect_disk(host: Host, folder: Path, *, properties: str) -> None:
    """Write a node's disk and its log lines into `nodes/<node>`."""
    for path in host.disk.paths():
        place = folder / "data" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(host.disk.read(path))
    logs = folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    lines: dict[str, list[str]] = {SERVER_LOG: [], STATE_CHANGE_LOG: []}
    for at_ns, text in host.said:
        name = STATE_CHANGE_LOG if text.endswith(STATE_CHANGES) else SERVER_LOG
        lines[name].append(f"[{_stamp(at_ns)}] INFO {text}\n")
    for name, said in lines.items():
        (logs / name).write_text("".join(said), encoding="utf-8")
    (folder / "server.properties").write_text(properties, encoding="utf-8")


def mirror_disk(host: Host, folder: Path, *, properties: str) -> None:
    """Write a node's disk as it is now; what is no longer on it is removed."""
    data, there = folder / "data", set(host.disk.paths())
    for file in [each for each in data.rglob("*") if each.is_file()]:
        if str(file.relative_to(data)) not in there:
            file.unlink()
    collect_disk(host, folder, properties=properties)


def _stamp(at_ns: int) -> str:
    ms = 1000 * WALL_CLOCK_S + at_ns // 1_000_000
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(ms / 1000))},{ms % 1000:03d}"
