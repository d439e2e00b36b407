"""Records of small runs, damaged in ways that disks, crashes and bugs of ours damage them.

A damage either loses or repeats what was recorded (then a run that was valid may become unknown,
and never invalid: nothing that is left contradicts a promise), or it writes something else in the
place of what was recorded. The second kind *lies*: a changed value in a file that is sound cannot
be told from the truth, so that whatever verdict comes of it may be right; but it must come.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from checkers.reigns import TRANSACTIONS
from checkers.run import judge_runs
from results.record.paths import RunPaths
from results.samples import copy_sample, sample_paths
from tests.checkers.faithful import FaithfulRun
from tests.checkers.transactional import TransactionalRun
from tests.checkers.unsealed import unsealed

INT64 = 2**63 - 1
WILD = (-INT64 - 1, -INT64, -1, 0, 1, 2**31 - 1, 2**31, 2**32, 2**62, INT64 - 1, INT64)
WORDS = ("", "okay", "OK", "fail", "info", "ok", "final", "main", "finale", "send", "poll", "txn",
         "crash", "0", "1", "all", "-1", "list-offsets", "metadata", "metadata-log", "quorum",
         "read_committed", "read_uncommitted", "commit", "abort", "aborted", "committed",
         "n1", "n2", "n9", "null", "\x00", "ü" * 40)  # fmt: skip
STEP_NODE = Path(__file__).parents[1] / "cluster_files" / "data" / "zookeeper" / "n1" / "data"


Bases = Sequence[tuple[Path, str]]
"""Folders of records to damage, with the verdict on each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One way to damage the folder of a run.

    Attributes:
        name: For the counts.
        act: Does it; returns what it hit.
        lies: Whether what it leaves may contradict a promise of the system.
    """

    name: str
    act: Callable[[Random, Path], str]
    lies: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Fuzzed:
    """A damaged record.

    Attributes:
        root: Its folder.
        base: What it was made from, and how that is judged.
        was: The verdict of what it was made from.
        damages: What was done, `name: where`.
        lies: Whether any of it lies.
    """

    root: Path
    base: str
    was: str
    damages: tuple[str, ...]
    lies: bool


# Files


def tables_of(root: Path) -> list[Path]:
    paths = RunPaths(root)
    return sorted(paths.live.glob("*.arrows")) or sorted(paths.record.glob("*.parquet"))


def load(path: Path) -> pa.Table:
    """Read a table that may be damaged already: what of it can be read."""
    try:
        if path.suffix == ".parquet":
            return pq.read_table(path)
        with pa.ipc.open_stream(path.read_bytes()) as reader:
            return reader.read_all()
    except (OSError, pa.ArrowException, ValueError):
        return pa.table({})


def store(path: Path, table: pa.Table) -> None:
    path.unlink()
    if path.suffix == ".parquet":
        pq.write_table(table, path, write_page_checksum=True)
        unsealed(path.parent)
        return
    with path.open("wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)


def a_table(random: Random, root: Path) -> tuple[Path, pa.Table]:
    """Choose a table that has rows, if there is one."""
    paths = tables_of(root)
    random.shuffle(paths)
    for path in paths:
        table = load(path)
        if table.num_rows:
            return path, table
    return paths[0] if paths else root / "nothing", pa.table({})


def some(random: Random, count: int) -> list[int]:
    """Choose rows: one, a few, or all."""
    share = random.choice((1, random.randrange(1, 6), count))
    return sorted(random.sample(range(count), min(count, share)))


# Damage that loses or repeats


def cut(random: Random, root: Path) -> str:
    path = random.choice(everything(root))
    content = path.read_bytes()
    path.write_bytes(content[: random.randrange(len(content) + 1)])
    return path.name


def cut_at_a_message(random: Random, root: Path) -> str:
    """Leave whole messages and no end mark, as a crash of the writer does."""
    path, table = a_table(random, root)
    if path.suffix != ".arrows":
        return "nothing"
    kept = random.randrange(table.num_rows + 1)
    path.write_bytes(b"")
    with path.open("wb") as file:
        writer = pa.ipc.new_stream(file, table.schema)
        writer.write_table(table.slice(0, kept))
        file.flush()
        content = path.read_bytes()
        writer.close()
    path.write_bytes(content)
    return path.name


def drop_file(random: Random, root: Path) -> str:
    path = random.choice(everything(root))
    path.unlink()
    return path.name


def drop_folder(random: Random, root: Path) -> str:
    folders = [path for path in root.rglob("*") if path.is_dir()]
    if not folders:
        return "no folder is left"
    path = random.choice(folders)
    shutil.rmtree(path)
    return str(path.relative_to(root))


def repeat_rows(random: Random, root: Path) -> str:
    path, table = a_table(random, root)
    if table.num_rows:
        twice = sorted([*range(table.num_rows), *some(random, table.num_rows)])
        store(path, table.take(pa.array(twice)))
    return path.name


def repeat_rows_at_the_end(random: Random, root: Path) -> str:
    path, table = a_table(random, root)
    if table.num_rows:
        store(path, pa.concat_tables([table, table.take(pa.array(some(random, table.num_rows)))]))
    return path.name


def shuffle_rows(random: Random, root: Path) -> str:
    path, table = a_table(random, root)
    if table.num_rows:
        order = random.sample(range(table.num_rows), table.num_rows)
        store(path, table.take(pa.array(order)))
    return path.name


def repeat_a_stream(random: Random, root: Path) -> str:
    """Copy a stream to another writer's name."""
    live = RunPaths(root).live
    paths = [each for each in live.glob("*.arrows") if ".worker-9." not in each.name]
    if not paths:
        return "nothing"
    path = random.choice(paths)
    shutil.copyfile(path, path.with_name(f"{path.name.split('.')[0]}.worker-9.arrows"))
    return path.name


def break_text(random: Random, root: Path) -> str:
    names = ("plan.toml", "topics.json", "milestones.jsonl", "steps.jsonl", "record/ingest.json")
    paths = [root / name for name in names if (root / name).exists()]
    if not paths:
        return "nothing"
    path = random.choice(paths)
    text = bytearray(path.read_bytes())
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(text) + 1)
        text[at : at + random.randrange(4)] = random.choice(
            (b"", b"\x00", b"\xff\xfe", b"[", b"}", b'"', b"\n", b"=", b"9" * 40, b"-", b"null")
        )
    path.write_bytes(bytes(text))
    return path.name


def other_text(random: Random, root: Path) -> str:
    """Write sound JSON or TOML that says something else altogether."""
    name = random.choice(("topics.json", "milestones.jsonl", "record/ingest.json", "steps.jsonl"))
    if (root / name).parent.is_dir():
        value: Any = random.choice(
            (None, 0, [], {}, "x", [1], [[]], [None], {"run_id": 1}, {"problems": 3}, [{}],
             {"name": 1, "at_ns": "x"}, {"name": "main", "at_ns": None, "detail": []},
             {"name": "stopped", "at_ns": 1, "detail": 5}, [{"topic": 1, "topic_id": None,
             "partitions": "x"}], {"run_id": None, "problems": [{}]},
             {"run_id": "x", "problems": [{"unit": 1, "sentence": None, "cut": "x"}]})
        )  # fmt: skip
        (root / name).write_text(json.dumps(value) + "\n")
    return name


def flip_in_parquet(random: Random, root: Path) -> str:
    """Flip bits of files that have checksums."""
    paths = [path for path in tables_of(root) if path.suffix == ".parquet"]
    return flip(random, random.choice(paths)) if paths else "nothing"


def other_columns(random: Random, root: Path) -> str:
    """Drop, rename or retype a column of a whole table."""
    path, table = a_table(random, root)
    if not table.num_columns:
        return path.name
    at = random.randrange(table.num_columns)
    name, column = table.column_names[at], table.column(at)
    how = random.choice(("drop", "rename", "retype"))
    if how == "drop":
        table = table.drop_columns([name])
    elif how == "rename":
        table = table.rename_columns([*table.column_names[:at], "x", *table.column_names[at + 1 :]])
    else:
        other = pa.nulls(len(column), random.choice((pa.int8(), pa.string(), pa.binary())))
        table = table.set_column(at, name, other)
    store(path, table)
    return f"{path.name}: {how} {name}"


# Damage that lies


def flip(random: Random, path: Path) -> str:
    content = bytearray(path.read_bytes())
    for _ in range(random.choice((1, 1, 3, 20)) if content else 0):
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(bytes(content))
    return path.name


def flip_anywhere(random: Random, root: Path) -> str:
    return flip(random, random.choice(everything(root)))


def garbage(random: Random, root: Path) -> str:
    path = random.choice(everything(root))
    path.write_bytes(random.randbytes(random.randrange(300)))
    return path.name


def empty(random: Random, root: Path) -> str:
    path, table = a_table(random, root)
    if table.num_rows:
        store(path, table.slice(0, 0))
    return path.name


def drop_rows(random: Random, root: Path) -> str:
    path, table = a_table(random, root)
    if table.num_rows:
        gone = set(some(random, table.num_rows))
        store(path, table.take(pa.array([at for at in range(table.num_rows) if at not in gone],
                                        pa.int64())))  # fmt: skip
    return path.name


def change(
    random: Random, root: Path, wanted: Callable[["pa.Field[Any]"], bool], made: Callable[..., Any]
) -> str:
    """Put other values into some rows of a column."""
    path, table = a_table(random, root)
    columns = [at for at, field in enumerate(table.schema) if wanted(field)]
    if not columns:
        return path.name
    at = random.choice(columns)
    values = table.column(at).to_pylist()
    for row in some(random, len(values)):
        values[row] = made(values)
    field = table.schema.field(at)
    table = table.set_column(at, field, pa.array(values, field.type))
    store(path, table)
    return f"{path.name}: {field.name}"


def fits(field: "pa.Field[Any]", value: int) -> int:
    return int(np.int64(value).astype(np.int32)) if field.type == pa.int32() else value


def wild_times(random: Random, root: Path) -> str:
    return change(
        random, root, lambda field: field.name.endswith("_ns"),
        lambda values: random.choice((None, *WILD, random.choice(values), random.getrandbits(40))),
    )  # fmt: skip


def wild_numbers(random: Random, root: Path) -> str:
    small = [value for value in WILD if abs(value) < 2**31]
    narrow = random.random() < 0.3
    kind = pa.int32() if narrow else pa.int64()
    return change(
        random, root, lambda field: bool(field.type == kind),
        lambda values: random.choice((*(small if narrow else WILD), random.choice(values))),
    )  # fmt: skip


def nulls(random: Random, root: Path) -> str:
    return change(random, root, lambda _field: True, lambda _values: None)


def wrong_words(random: Random, root: Path) -> str:
    return change(
        random, root, lambda field: bool(field.type == pa.string()),
        lambda values: random.choice((*WORDS, random.choice(values))),
    )  # fmt: skip


def wrong_flags(random: Random, root: Path) -> str:
    return change(
        random, root, lambda field: bool(field.type == pa.bool_()),
        lambda _values: random.choice((True, False, None)),
    )  # fmt: skip


def wrong_lists(random: Random, root: Path) -> str:
    def made(values: list[Any]) -> object:
        old: list[Any] = next((value for value in values if value), [])
        return random.choice(([], None, old * 2, [*old, None], old[:1]))

    return change(random, root, lambda field: pa.types.is_list(field.type), made)


def wrong_places(random: Random, root: Path) -> str:
    names = {"topic", "topic_id", "partition", "node", "observer", "snapshot"}
    return change(
        random, root, lambda field: field.name in names,
        lambda values: random.choice(
            (*WILD[3:6], None, values[0]) if any(isinstance(each, int) for each in values)
            else ("", "log-9", "id-9", None, random.choice(values))
        ),
    )  # fmt: skip


def repeat_ids(random: Random, root: Path) -> str:
    names = {"op_id", "value", "txn_id", "process", "fault_id", "offset", "mop", "pos"}
    return change(
        random, root, lambda field: field.name in names,
        lambda values: random.choice([value for value in values if value is not None] or [None]),
    )  # fmt: skip


def everything(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file()) or [_placeholder(root)]


def _placeholder(root: Path) -> Path:
    """Make a file for the damages that follow one that left none."""
    root.mkdir(parents=True, exist_ok=True)
    path = root / "environment.json"
    path.write_text("{}")
    return path


def repeat_op_ids(random: Random, root: Path) -> str:
    """Give an op the id of another: nothing of either can be relied on."""
    paths = [path for path in tables_of(root) if path.name.startswith(("op_invocations", "ops."))]
    path = next((path for path in paths if load(path).num_rows > 1), None)
    if path is None:
        return "nothing"
    table = load(path)
    ids = table["op_id"].to_pylist()
    one, two = random.sample(range(len(ids)), 2)
    ids[one] = ids[two]
    at = table.column_names.index("op_id")
    store(path, table.set_column(at, table.schema.field(at), pa.array(ids, pa.int64())))
    return path.name


DAMAGES = (
    Damage(name="cut", act=cut),
    Damage(name="cut at a message", act=cut_at_a_message),
    Damage(name="file dropped", act=drop_file),
    Damage(name="folder dropped", act=drop_folder),
    Damage(name="rows repeated", act=repeat_rows),
    Damage(name="rows repeated at the end", act=repeat_rows_at_the_end),
    Damage(name="rows shuffled", act=shuffle_rows),
    Damage(name="stream repeated", act=repeat_a_stream),
    Damage(name="op ids repeated", act=repeat_op_ids),
    Damage(name="other columns", act=other_columns),
    Damage(name="bits flipped in Parquet", act=flip_in_parquet),
    Damage(name="text broken", act=break_text, lies=True),
    Damage(name="other text", act=other_text, lies=True),
    Damage(name="bits flipped", act=flip_anywhere, lies=True),
    Damage(name="garbage", act=garbage),
    Damage(name="table emptied", act=empty, lies=True),
    Damage(name="rows dropped", act=drop_rows, lies=True),
    Damage(name="wild times", act=wild_times, lies=True),
    Damage(name="wild numbers", act=wild_numbers, lies=True),
    Damage(name="nulls", act=nulls, lies=True),
    Damage(name="wrong words", act=wrong_words, lies=True),
    Damage(name="wrong flags", act=wrong_flags, lies=True),
    Damage(name="wrong lists", act=wrong_lists, lies=True),
    Damage(name="wrong places", act=wrong_places, lies=True),
    Damage(name="ids repeated", act=repeat_ids, lies=True),
)  # fmt: skip


# Records


def write_bases(folder: Path, *, seeds: Sequence[int]) -> Bases:
    """Write what records are damaged: runs with live streams, without them, and the samples.

    Returns:
        Folders, with the verdict on each.
    """
    roots = []
    for seed in seeds:
        root = FaithfulRun(seed, steps=40, looks=seed % 3).write(folder / "live" / f"run-{seed}")
        if seed % 3:
            shutil.copytree(STEP_NODE, RunPaths(root).snapshots / "step-01" / "n1" / "data")
        roots.append(root)
        stored = shutil.copytree(root, folder / "stored" / f"run-{seed}")
        judge_runs([stored], engine="local")
        shutil.rmtree(RunPaths(stored).live)
        roots.append(stored)
    coordinated = TransactionalRun(min(seeds))
    for epoch in range(6):
        coordinated.add(
            "leadership", topic=TRANSACTIONS, topic_id="id-t", partition=0, source="metadata-log",
            observer="n1", leader=(1, 2, -1, 2, 2, 3)[epoch], leader_epoch=epoch, isr=[1, 2, 3],
            log_offset=epoch, unclean=False,
        )  # fmt: skip
    roots.append(coordinated.write(folder / "live" / "coordinated"))
    roots += [copy_sample(RunPaths(path), folder / "sample").root for path in sample_paths()]
    verdicts = {}
    for root in roots:  # A judgement leaves files behind; what is damaged must not have them.
        judged = shutil.copytree(root, folder / "judged" / root.parent.name / root.name)
        verdicts[root] = judge_runs([judged], engine="local")[0].valid.value
    shutil.rmtree(folder / "judged")
    return list(verdicts.items())


def fuzz(seed: int, bases: Bases, folder: Path) -> Fuzzed:
    """Copy one of the bases, and damage it once to three times."""
    random = Random(f"{seed}/fuzzed")
    base, was = random.choice(bases)
    root = shutil.copytree(base, folder / f"record-{seed}")
    chosen = random.choices(DAMAGES, k=random.choice((1, 1, 2, 3)))
    if random.random() < 0.5:  # Otherwise few records have none that lies.
        chosen = random.choices([each for each in DAMAGES if not each.lies], k=len(chosen))
    damages = []
    for each in chosen:
        try:
            damages.append(f"{each.name}: {each.act(random, root)}")
        except (pa.ArrowException, OSError, ValueError, TypeError, IndexError, KeyError) as cannot:
            damages.append(f"{each.name}: not done, {type(cannot).__name__}")
    return Fuzzed(
        root=root, base=f"{base.parent.name}/{base.name}", was=was, damages=tuple(damages),
        lies=any(each.lies for each in chosen),
    )  # fmt: skip
