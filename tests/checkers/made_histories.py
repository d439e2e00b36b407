"""Histories as Jepsen's Kafka workload records them, made from a seed, with anomalies if asked."""

import json
from pathlib import Path
from random import Random
from typing import Any

Entry = dict[str, Any]


class MadeHistory:
    """Clients of a log that does as it should, but where it is told to err.

    Args:
        seed: Of everything.
        steps: So many entries before the last reads, about.
        wrong: How often something goes wrong, from 0 to 1.
    """

    def __init__(self, seed: int, *, steps: int = 60, wrong: float = 0.0) -> None:
        self.random = Random(seed)
        self.wrong = wrong
        self.entries: list[Entry] = []
        self.logs: list[list[int | None]] = [[] for _ in range(3)]
        self.next_value = [0, 0, 0]
        self.position: dict[int, list[int]] = {}
        self.open: dict[int, Entry] = {}
        self.processes = [0, 1, 2, 3]
        for _ in range(steps):
            self.step()
        for process in list(self.open):
            self.end(process, "ok")
        self.read_all()

    def add(self, process: int, kind: str, f: str, value: object) -> Entry:
        entry = {"index": len(self.entries), "time": 1_000 * (len(self.entries) + 1),
                 "process": process, "type": kind, "f": f, "value": value}  # fmt: skip
        self.entries.append(entry)
        return entry

    def step(self) -> None:
        process = self.random.choice(self.processes)
        if process in self.open:
            self.end(process, self.random.choice(("ok", "ok", "ok", "fail", "info")))
        else:
            self.begin(process)

    def begin(self, process: int) -> None:
        value: list[Any]
        f = self.random.choice(("send", "poll", "txn", "txn", "assign"))
        if f == "assign" or process not in self.position:
            keys = sorted(self.random.sample(range(3), self.random.randrange(1, 4)))
            f, value = "assign", keys
        else:
            value = [self.part(f) for _ in range(self.random.randrange(1, 4))]
        self.open[process] = self.add(process, "invoke", f, value)

    def part(self, f: str) -> list[Any]:
        if f == "poll" or (f == "txn" and self.random.random() < 0.5):
            return ["poll"]
        key = self.random.randrange(3)
        self.next_value[key] += 1
        return ["send", key, self.next_value[key]]

    def end(self, process: int, kind: str) -> None:
        entry = self.open.pop(process)
        if entry["f"] == "assign":
            before = self.position.get(process, [])
            kept = {key: at for key, at in enumerate(before) if key in entry["value"]}
            self.position[process] = [kept.get(key, 0 if key in entry["value"] else -1)
                                      for key in range(3)]  # fmt: skip
            self.add(process, "ok", "assign", entry["value"])
            return
        stored = kind == "ok" or (kind == "info" and self.random.random() < 0.5)
        before = list(self.position[process])
        # Reads come first, so that an op does not read what it writes.
        polled = [self.poll(process) if part[0] == "poll" else None for part in entry["value"]]
        parts = [
            got if got is not None else self.store(part, stored=stored)
            for part, got in zip(entry["value"], polled, strict=True)
        ]
        if kind == "fail":
            self.position[process] = before  # A reader goes back to where it stood.
        told = parts if kind == "ok" or self.random.random() < 0.5 else entry["value"]
        self.add(process, kind, entry["f"], told)
        if kind == "info":
            self.processes[self.processes.index(process)] += len(self.processes)

    def err(self) -> bool:
        return self.random.random() < self.wrong

    def store(self, part: list[Any], *, stored: bool) -> list[Any]:
        _, key, value = part
        log = self.logs[key]
        if self.random.random() < 0.1:
            log.append(None)  # A marker, as of a transaction.
        offset = len(log)
        if stored is not self.err():
            log.append(value)
            if self.err():
                log.append(value)
        if not stored or self.random.random() < 0.1:
            return part
        return ["send", key, [offset + self.err(), value]]

    def poll(self, process: int) -> list[Any]:
        got = {}
        for key, at in enumerate(self.position[process]):
            end = len(self.logs[key]) if at < 0 else min(len(self.logs[key]), at + 4)
            records = self.records(key, range(at, end)) if at >= 0 else []
            if records:
                got[str(key)] = records
                self.position[process][key] = end
        return ["poll", got]

    def records(self, key: int, offsets: range) -> list[list[int]]:
        found = [(offset, self.logs[key][offset]) for offset in offsets]
        return [
            [offset, max(1, value - self.err())]
            for offset, value in found
            if value is not None and not self.err()
        ]

    def read_all(self) -> None:
        self.add(99, "invoke", "assign", [0, 1, 2])
        self.add(99, "ok", "assign", [0, 1, 2])
        got = {str(key): self.records(key, range(len(log))) for key, log in enumerate(self.logs)}
        self.add(99, "invoke", "poll", [["poll"]])
        self.add(99, "ok", "poll", [["poll", {key: each for key, each in got.items() if each}]])

    def write(self, path: Path) -> Path:
        path.write_text("".join(json.dumps(entry) + "\n" for entry in self.entries))
        return path


def edn(value: object) -> str:
    """A value as Clojure prints it; words are keywords."""
    match value:
        case None | bool():
            return {None: "nil", True: "true", False: "false"}[value]
        case str():
            return f":{value.replace('_', '-')}"
        case list():
            return f"[{' '.join(map(edn, value))}]"
        case dict():
            pairs = (f"{key if key.isdigit() else edn(key)} {edn(each)}"
                     for key, each in value.items())  # fmt: skip
            return "{" + ", ".join(pairs) + "}"
        case _:
            return str(value)
