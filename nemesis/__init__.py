"""Faults (one file each), their targets, and the ledger, which ensures that each fault is undone.

A fault has these steps: write its undo into the ledger, inject, confirm by measurement, hold, heal,
confirm the heal, and mark the entry in the ledger as healed. The package contains:

- The faults, by name in `registry`. docs/faults.md has a table of them. Code shared by several
  faults is in `brokers`, `log_bounds`, `disks`, `clocks`, `leadership`, `replicas`, `cut` and
  `quality`.
- Targets and times: `roster` and `targets` (nodes by role), `grudges` (shapes of network
  partitions), `schedule` and `decks` (the random schedule), `triggers` (states to wait for),
  `scripted` (fixed sequences).
- Execution: `runner` executes the schedule, and `life` executes one fault. `claims` prevents two
  faults on one aspect of a node. `ledger` and `undo` survive a crash, and `sweep` heals the rest.
  `network` keeps the list of active cuts. `effects` defines the measured effects, and `evidence`
  the rules that confirm them. `rows` makes the `faults` table.

Only `harness` may import this package. This package imports `cluster` and `results`, never
`workloads` or `checkers`.

To add a fault, change three files: a module that makes the fault (a `protocol.Fault`), its test,
and one line in `registry.KINDS`. `doctor`, plans, schedules and pages find the fault in `KINDS`.
"""
