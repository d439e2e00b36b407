"""Checks that use the definitions of Jepsen's Kafka checker, where the contract's differ.

If Jepsen is the judge, these checks replace the contract's checks with the same names. All of them
use only the clients' observations. The log consists of the records that any reader got, and the
offsets that committed sends got. Use these checks to compare verdicts with Jepsen's, and to judge
imported histories.

See Jepsen's `jepsen.tests.kafka`. The file `tests/histories/README.md` sums up Jepsen's rules.
"""
