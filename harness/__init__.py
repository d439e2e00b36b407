"""The controller: from a plan to a verdict.

`cli` is the command line; `session` prepares a run, enters its network, and judges what came
back; `stage` and `life` are the part of a run inside of that network: brokers, clients and nemesis,
from the first start to the last file collected. May import everything; is imported by nobody.
"""
