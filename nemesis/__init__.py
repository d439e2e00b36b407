"""Faults (one file each), their targets, and the ledger, which ensures that each fault is undone.

Each fault goes through these steps: write the undo steps into the ledger, inject, measure the
effect, wait, heal, measure again, and mark the ledger entry as healed. The package contains:

- The faults. `registry` lists them by name, and docs/faults.md has a table of them. Code shared by
  several faults is in `brokers`, `background`, `log_bounds`, `bits`, `disks`, `faulty_disks`,
  `resources`, `clocks`, `leadership`, `replicas`, `remade`, `cut`, `quality`, `stalls`,
  `connections`, `resets` and `half_open`.
- Targets and times: `roster` and `targets` (nodes by role), `grudges` (shapes of network
  partitions), `schedule` and `decks` (the random schedule), `triggers` (states to wait for),
  `scripted` (fixed sequences).
- Execution: `runner` executes the schedule, and `life` executes one fault. `claims` keeps two
  faults from changing the same aspect of a node at once, but allows several cuts of links. `ledger`
  and `undo` record how to undo each fault, even after a crash. `sweep` heals all faults that are
  left at the end. `network` keeps the list of active cuts. `effects` defines the measured effects,
  and `evidence` the rules that confirm them. `rows` makes the `faults` table.

Only `harness` may import this package. This package imports `cluster` and `results`, never
`workloads` or `checkers`.

To add a fault, change three files: a module that makes the fault (a `protocol.Fault`), its test,
and one line in `registry.KINDS`. `doctor`, plans, schedules and pages find the fault in `KINDS`.
"""
