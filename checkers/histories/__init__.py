"""Imported histories: records of Jepsen's Kafka workload, judged by Logquake's checkers.

`edn` reads Clojure's notation. `reading` finds the histories in a file, in EDN or JSON lines.
`recording` turns a history's ops into the record's tables. `judging` returns the verdicts. Only the
command line and a benchmark import this package. A history has only the clients' observations: it
has no final reads, no replicas' logs, and no faults.
"""
