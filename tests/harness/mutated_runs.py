"""Run folders that somebody made hostile: a seed says how, and what commands are then tried.

Each mutant is a stored run with some of its files replaced: by links, pipes, folders, bombs, bytes
that mean nothing, other owners, or control files that name a stranger's processes and files.
"""

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from cluster.hosts.ledger import Entry
from cluster.hosts.signals import process_id
from cluster.hosts.ssh.run import FILE
from harness.cli import exit_code
from harness.exit_codes import INTERNAL_ERROR
from harness.keep import Kept, Machine
from nemesis.undo import FlipBack, Resume
from results.record.paths import RunPaths
from results.record.world import world
from results.samples import find_sample
from results.site import make_site
from results.store import Store

_CHILDREN = get_context("spawn")
NOBODY = 65534
SEGMENTS = Path(__file__).parent.parent / "cluster_files" / "data"
HANGS_S = 10.0
"""Of processor time."""
WAITS_S = 60.0
"""By the clock: a machine that does other things too is slow."""
MOST_CHUNKS = 4096
"""Of an answer: a visitor who wants no more goes away."""
CONTROL = (
    "lock", "ledger.jsonl", "processes.jsonl", "plan.toml", "milestones.jsonl", "topics.json",
    "environment.json", "verdict.json", "night.json", "kept.json", FILE, "steps.jsonl",
    "scenario.json", "bundle.json", "record/ingest.json", "report.html", "plots", "scratch", "kept",
    "record", "record/live", "statistics", "nodes", "nodes/n1", "workers",
)  # fmt: skip
COMMANDS: Sequence[Sequence[str]] = (
    ("heal",), ("runs",), ("show", "RUN"), ("report", "RUN"), ("timeline", "RUN"),
    ("report", "RUN", "--output", "OUT/report.html"),
    ("timeline", "RUN", "--output", "OUT/timeline.html"),
    ("check", "RUN", "--engine", "local"),
    ("check", "RUN", "--engine", "local", "--judge", "contract"),
    ("export", "RUN", "--as", "bundle", "--with-nodes", "-o", "OUT/bundle"),
    ("export", "RUN", "--as", "perfetto", "-o", "OUT/perfetto"),
    ("export", "RUN", "--as", "csv", "-o", "OUT/csv"),
    ("export", "RUN", "--as", "jepsen", "-o", "OUT/history.edn"),
    ("node", "RUN"), ("node", "RUN", "n1", "--", "touch", "OUT/../elsewhere/entered"),
    ("node", "RUN", "--end"), ("reindex",), ("serve",),
)  # fmt: skip
"""Each mutant is healed, and some more of these are tried; `serve` means its pages."""
PAGES = (
    "/", "/runs", "/files/RUN", "/run/RUN/report.html", "/run/RUN/timeline.html", "/bundle/RUN",
    "/run/RUN/plan.toml", "/run/RUN/lock", "/compare?left=RUN&right=RUN",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Yard:
    """Where mutants are made, and what none of them may reach.

    Attributes:
        root: Has the store, what commands write, and `elsewhere`.
        stranger: A process that is no run's.
        bombs: Files of Parquet that fill the memory of whoever decodes them.
    """

    root: Path
    stranger: int
    bombs: Sequence[Path]

    @property
    def store(self) -> Path:
        """The folder of runs."""
        return self.root / "runs"

    @property
    def out(self) -> Path:
        """What commands write to."""
        return self.root / "out"

    @property
    def elsewhere(self) -> Path:
        """What is dear to its owner: as a run is, with folders of the same names."""
        return self.root / "elsewhere"

    @property
    def damaged(self) -> Path:
        """A batch of Kafka whose last bit is flipped: an undo would put it right."""
        return self.elsewhere / "damaged.log"

    def outside(self) -> dict[str, object]:
        """Return all that lies outside of the store and that no command was told to write."""
        return {
            str(path): (path.lstat().st_mode, path.lstat().st_uid, path.lstat().st_nlink,
                        path.read_bytes() if path.is_file() and not path.is_symlink() else b"")
            for path in sorted(self.elsewhere.rglob("*"))
        }  # fmt: skip


def make_yard(root: Path, stranger: int, *, bombs: Sequence[Callable[[Path], None]] = ()) -> Yard:
    """Make the folder that a series of mutants plays in."""
    made = [root / f"bomb-{number}.parquet" for number in range(len(bombs))]
    for path, bomb in zip(made, bombs, strict=True):
        with _CHILDREN.Pool(1) as child:  # It takes the memory that no reader may take.
            child.apply(bomb, (path,))
    yard = Yard(root=root, stranger=stranger, bombs=made)
    shutil.copytree(find_sample("leader-epoch-1-high-watermark"), yard.elsewhere)
    yard.damaged.write_bytes(_damaged_batch())
    for name in ("scratch", "plots", "workers", "kept"):
        (yard.elsewhere / name).mkdir()
        (yard.elsewhere / name / "dear").write_text("dear")
    return yard


def _damaged_batch() -> bytes:
    segment = next(iter(sorted(SEGMENTS.glob("**/00000000000000000000.log")))).read_bytes()
    batch = segment[: 12 + int.from_bytes(segment[8:12], "big")]
    assert int.from_bytes(batch[:8], "big") == 0
    return batch[:-1] + bytes([batch[-1] ^ 1])


def made(rng: Random, yard: Yard) -> tuple[RunPaths, str]:
    """Make a mutant in the place of the last one; return it, and what was done to it."""
    shutil.rmtree(yard.store, ignore_errors=True)
    shutil.rmtree(yard.out, ignore_errors=True)
    yard.out.mkdir()
    sample = rng.choice(("leader-epoch-1-high-watermark", "leader-epoch-2-high-watermark"))
    paths = RunPaths(yard.store / "log" / "20261121T104500Z-7")
    shutil.copytree(find_sample(sample), paths.root)
    done = [_mutate(rng, paths, yard) for _ in range(rng.randint(1, 4))]
    return paths, "; ".join(done)


def tried(seed: int, yard: Yard, *, commands: int) -> list[str]:
    """Make a mutant and try commands on it; return what must not be, in sentences."""
    rng = Random(seed)
    paths, done = made(rng, yard)
    before, wrong = yard.outside(), []
    for command in (COMMANDS[0], *rng.sample(COMMANDS[1:], commands)):
        told = " ".join(command)
        if why := _wrong(command, paths, yard):
            wrong.append(f"seed {seed}: {told} after {done}: {why}")
        if yard.outside() != before:
            wrong.append(f"seed {seed}: {told} after {done} changed files elsewhere")
            before = yard.outside()
    return wrong


def words_of(command: Sequence[str], paths: RunPaths, yard: Yard) -> list[str]:
    """Return a command of `COMMANDS` as a user types it."""
    words = [each.replace("RUN", paths.run_id).replace("OUT", str(yard.out)) for each in command]
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], "--store", str(yard.store), *words[at:]]


def _wrong(command: Sequence[str], paths: RunPaths, yard: Yard) -> str:
    """Run a command; return what is wrong about it: nothing if it is done, or refused."""
    said = io.StringIO()
    begun_s = time.process_time()
    with _limited(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            if command == ("serve",):
                _served(paths, yard)
                code = 0
            else:
                code = exit_code(words_of(command, paths, yard))
        except BaseException as raised:  # noqa: BLE001 - whatever it is, no user may see it
            return f"{type(raised).__name__}: {raised}"
    if (took_s := time.process_time() - begun_s) > HANGS_S:
        return f"it took {took_s:.0f} s"
    if code == INTERNAL_ERROR or "Traceback" in said.getvalue():
        return f"it ended with {code}: {said.getvalue()[-700:]}"
    return ""


def _served(paths: RunPaths, yard: Yard) -> None:
    client = make_site(Store(yard.store)).test_client()
    client.application.config["PROPAGATE_EXCEPTIONS"] = True
    for url in PAGES:
        with client.get(url.replace("RUN", paths.run_id)) as answer:
            for _ in islice(answer.iter_encoded(), MOST_CHUNKS):  # A file may have no end.
                pass


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Interrupt what waits for ever."""

    def hangs(_number: int, _frame: object) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.setitimer(signal.ITIMER_REAL, WAITS_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _mutate(rng: Random, paths: RunPaths, yard: Yard) -> str:
    """Change a run folder; return how, for whoever looks into it."""
    if rng.random() < 0.3:
        lie = rng.choice(LIES)
        with contextlib.suppress(OSError):  # What was put there before may be in the way.
            lie(rng, paths, yard)
        return lie.__name__
    there = [str(each.relative_to(paths.root)) for each in sorted(paths.root.rglob("*"))]
    name = rng.choice(rng.choice((CONTROL, there or CONTROL)))
    way = rng.choice(WAYS)
    above = Path(os.path.realpath((paths.root / name).parent))  # A link may lead to itself.
    if not above.is_relative_to(yard.store.resolve()):
        return "nothing more"  # By a link that was put there before: it is we who would do harm.
    with contextlib.suppress(OSError):
        way(rng, paths.root / name, yard)
    return f"{way.__name__} {name}"


def _clear(path: Path) -> None:
    """Remove what is there, whatever it is; never what a link leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)


def link(rng: Random, path: Path, yard: Yard) -> None:
    """Let it lead elsewhere: to a file or folder of the same name, or of another one."""
    others = sorted(each for each in yard.elsewhere.rglob("*"))
    alike = [each for each in others if each.name == path.name] or others
    if not path.parent.is_symlink():
        _clear(path)
        path.symlink_to(rng.choice((rng.choice(alike), path, yard.elsewhere, Path("/dev/zero"))))


def pipe(_rng: Random, path: Path, _yard: Yard) -> None:
    """Put a pipe there that nobody writes to."""
    _clear(path)
    os.mkfifo(path)


def listening(_rng: Random, path: Path, _yard: Yard) -> None:
    """Put a socket there."""
    _clear(path)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def folder(_rng: Random, path: Path, _yard: Yard) -> None:
    """Put a folder there."""
    _clear(path)
    path.mkdir()


def gone(_rng: Random, path: Path, _yard: Yard) -> None:
    """Remove it."""
    _clear(path)


def noise(rng: Random, path: Path, _yard: Yard) -> None:
    """Write bytes that mean nothing."""
    _clear(path)
    path.write_bytes(rng.randbytes(rng.choice((0, 1, 7, 300, 70_000))))


def nested(rng: Random, path: Path, _yard: Yard) -> None:
    """Write what is nested deep."""
    _clear(path)
    path.write_text(rng.choice(("[", '{"a":', "a = [", "[a.")) * rng.choice((900, 100_000)) + "\n")


def endless(_rng: Random, path: Path, _yard: Yard) -> None:
    """Write a file of a tebibyte that takes no room."""
    _clear(path)
    path.touch()
    os.truncate(path, 1 << 40)


def torn(rng: Random, path: Path, _yard: Yard) -> None:
    """Cut a file off, or flip a bit of it."""
    if not path.is_file() or path.is_symlink() or path.lstat().st_size > 1 << 30:
        return
    data = bytearray(path.read_bytes())
    if data and rng.random() < 0.5:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    else:
        del data[rng.randrange(len(data) + 1) :]
    path.write_bytes(data)


def other_json(rng: Random, path: Path, _yard: Yard) -> None:
    """Let values of JSON be of other types and sizes than those of a run."""
    if not path.is_file() or path.is_symlink() or path.suffix not in (".json", ".jsonl"):
        return
    lines = path.read_text(errors="replace").splitlines() if path.suffix == ".jsonl" else [
        path.read_text(errors="replace")]  # fmt: skip
    told = []
    for line in lines:
        try:
            told.append(json.dumps(_twisted(rng, json.loads(line))))
        except (ValueError, RecursionError):
            told.append(line)
    path.write_text("\n".join(told) + "\n")


EXTREMES: Sequence[int] = (
    -(1 << 63),
    -1_000_000,
    -1,
    8,
    64,
    (1 << 63) - 1,
    1 << 63,
    10**15,
    10**30,
)
ODD: Sequence[object] = (
    *EXTREMES,
    None,
    True,
    -1,
    1 << 70,
    1e308,
    float("nan"),
    "",
    "../../x",
    "\x1b[2J<b>",
    [],
    {},
    [[1]],
)


def _twisted(rng: Random, value: object, deep: int = 0) -> object:
    if rng.random() < 0.02 + 0.03 * (deep == 1):
        return rng.choice(ODD)
    if isinstance(value, dict):
        return {key: _twisted(rng, each, deep + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [_twisted(rng, each, deep + 1) for each in value]
    return value


def owned(rng: Random, path: Path, _yard: Yard) -> None:
    """Give it to somebody else, or let everybody write it."""
    if path.is_symlink() or not path.exists():
        return
    if os.geteuid() == 0 and rng.random() < 0.5:
        os.chown(path, NOBODY, NOBODY)
    else:
        path.chmod(0o777)


def bomb(rng: Random, path: Path, yard: Yard) -> None:
    """Put a table there that fills the memory, or one of other columns."""
    if path.suffix != ".parquet":
        return
    _clear(path)
    if yard.bombs and rng.random() < 0.5:
        shutil.copyfile(rng.choice(yard.bombs), path)
    else:
        pq.write_table(pa.table({"x": [1, None], "run_id": ["a", "b"]}), path)


WAYS: Sequence[Callable[[Random, Path, Yard], None]] = (
    link, link, pipe, listening, folder, gone, noise, nested, endless, torn, torn, other_json,
    other_json, owned, bomb,
)  # fmt: skip


def _say(path: Path, text: str) -> None:
    """Write a file in the place of what is there; the run itself is left if it leads elsewhere."""
    if not path.parent.is_symlink():
        _clear(path)
        path.write_text(text)


def processes_lie(rng: Random, paths: RunPaths, yard: Yard) -> None:
    """Say that processes of others are the run's."""
    ticks = process_id(yard.stranger).start_ticks
    line = {
        "what": "java", "node": "n1", "start_ticks": ticks, "world": world(), "machine": "",
        "since_s": 0.0,
        "pid": rng.choice((yard.stranger, 1, 0, -1, f"../..{yard.elsewhere}/plan", os.getpid())),
    }  # fmt: skip
    assert set(line) == set(Entry.__dataclass_fields__)
    _say(paths.processes, json.dumps(line) + "\n")


def undo_lies(rng: Random, paths: RunPaths, yard: Yard) -> None:
    """Say that an undo continues a stranger, or changes a file elsewhere, or a bit that none is."""
    files = sorted(each for each in yard.elsewhere.rglob("*") if each.is_file())
    ticks = process_id(yard.stranger).start_ticks
    dear = rng.choice((yard.damaged, rng.choice(files)))
    own = paths.node("n1") / "own.log"
    if not any(each.is_symlink() for each in (paths.nodes, own.parent, own)):
        own.write_bytes(yard.damaged.read_bytes())
        if rng.random() < 0.5:  # What the text of a path seems to lead to.
            decoy = Path(f"{own.parent}/{dear}")
            decoy.parent.mkdir(parents=True, exist_ok=True)
            decoy.touch()
    node = rng.choice(("n1", "n1", "n1/", ".", "../../../../elsewhere", str(yard.elsewhere)))
    segment = rng.choice((str(dear), dear.name, own.name, own.name))
    bit = [0, yard.damaged.stat().st_size - 1, 0]
    if rng.random() < 0.5:
        bit[rng.randrange(3)] = rng.choice(EXTREMES)
    undo = rng.choice((
        Resume(node="n1", pid=rng.choice((yard.stranger, *EXTREMES)), start_ticks=ticks),
        FlipBack(node=node, segment=segment, base_offset=0,
                 position=bit[0], byte=bit[1], bit=bit[2]),
    ))  # fmt: skip
    told = {name: getattr(undo, name) for name in type(undo).__dataclass_fields__}
    _say(paths.ledger, json.dumps({"fault_id": 1, "undo": [told]}) + "\n")


def kept_lies(rng: Random, paths: RunPaths, yard: Yard) -> None:
    """Say that a kept node is a stranger's process."""
    machine = Machine(
        pid=yard.stranger, start_ticks=process_id(yard.stranger).start_ticks,
        folder=str(yard.elsewhere), container=rng.choice(("", "other")),
    )  # fmt: skip
    kept = Kept(
        world=world(), hosts=rng.choice(("process", "namespace")), bootstrap="", zookeeper="",
        machines={"n1": machine},
    )  # fmt: skip
    _say(paths.keeper, kept.model_dump_json())


def hosts_lie(rng: Random, paths: RunPaths, yard: Yard) -> None:
    """Say that the run was on hosts of a stranger's choice."""
    host = {
        "name": "n1", "address": "127.0.0.1", "ssh_address": "127.0.0.1", "port": 1, "user": "root",
        "key": None, "known_hosts": None, "folder": str(yard.elsewhere), "java": "java",
        "sudo": False, "ttl_s": 60.0,
    }  # fmt: skip
    run = rng.choice(("0123456789abcdef", "../x"))
    _say(paths.root / FILE, json.dumps({"run": run, "hosts": {"n1": host}}))
    _say(paths.root / "HOSTS.toml", '[[hosts]]\naddress = "127.0.0.1"\n')
    _say(paths.plan, f'hosts = "ssh:{paths.root}/HOSTS.toml"\n')


def root_leads_out(_rng: Random, paths: RunPaths, yard: Yard) -> None:
    """Let the whole run lead out of the store."""
    shutil.rmtree(paths.root)
    paths.root.symlink_to(yard.elsewhere)


LIES: Sequence[Callable[[Random, RunPaths, Yard], None]] = (
    processes_lie, undo_lies, kept_lies, hosts_lie, root_leads_out,
)  # fmt: skip
