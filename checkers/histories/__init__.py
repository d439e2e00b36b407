"""Histories of others: what Jepsen's Kafka workload recorded, judged by our checkers.

`edn` reads the notation of Clojure; `reading` finds the histories of a file, in EDN or JSON lines;
`recording` turns the ops of one into the record's tables; `judging` gives the verdicts. Only the
command line imports this package. Nothing of a run but what its clients saw is there: no final
reads, no replicas' logs, no faults.
"""
