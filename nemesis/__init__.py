"""Faults: one file a fault, their targets, and the ledger that guarantees that each is undone.

A fault has a life: plan, undo into the ledger, inject, confirm by measurement, hold, heal, confirm,
strike from the ledger. What lives here:

- the faults, by name in `registry` (docs/faults.md has the table); what several of them share is in
  `brokers`, `log_bounds`, `disks`, `clocks`, `leadership`, `replicas`, `cut` and `quality`;
- whom and when: `roster` and `targets` (nodes by role), `grudges` (shapes of partitions),
  `schedule` and `decks` (the deal), `triggers` (states that are waited for), `scripted` (stories);
- the life: `runner` drives the schedule, `life` one fault, `claims` keep two apart, `ledger` and
  `undo` outlive a crash, `sweep` heals the rest, `network` knows every cut in force, `effects` are
  what was measured (by the rules of `evidence`), `rows` the `faults` table.

Only `harness` may import it; it imports `cluster` and `results`, never `workloads` or `checkers`.

To add a fault, touch three files: a module with what makes it (a `protocol.Fault`), its test, and
one line in `registry.KINDS`. `doctor`, plans, schedules and pages find it there.
"""
