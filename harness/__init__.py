"""The harness: it plays a plan as a run, and produces the verdict.

`cli` is the command line. `session` prepares a run, enters its network, and judges the result.
`stage` and `life` play the run inside that network: brokers, clients and nemesis, from the first
start to the last collected file. This package may import every other package. No other package
imports this package.
"""
