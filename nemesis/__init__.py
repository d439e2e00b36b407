"""Faults: one file a fault, their targets, and the ledger that guarantees that each is undone.

A fault has a life: plan, undo into the ledger, inject, confirm by measurement, hold, heal, confirm,
strike from the ledger. What lives here:

- the faults: `kill`, `stop`, `pause`, and the partitions `isolate`, `halves`, `one_way`, by name in
  `registry`; `restart` and `cut` are what several of them share;
- whom and when: `targets` (nodes by role), `grudges` (shapes of partitions), `schedule` (the deal);
- the life: `runner` drives the schedule, `life` one fault, `ledger` and `undo` outlive a crash,
  `network` knows every cut in force, `effects` are what was measured, `rows` the `faults` table.

Only `harness` may import it; it imports `cluster` and `results`, never `workloads` or `checkers`.

To add a fault, touch three files: a module with what makes it (a `protocol.Fault`), its test, and
one line in `registry.KINDS`. `doctor`, plans, schedules and pages find it there.
"""
