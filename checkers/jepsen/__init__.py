"""Checks by the definitions of Jepsen's Kafka checker, where they differ from the contract's.

They take the place of those of the same name where Jepsen judges. All of them rest on what clients
saw: the log is what any reader was given, and what certainly committed sends were told. What they
are good for: comparing verdicts, and histories of others, where nothing else is known.

See Jepsen's `jepsen.tests.kafka`, and `tests/histories/README.md` for its rules in short.
"""
