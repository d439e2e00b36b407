"""The systems under test: one module each, with a common protocol.

`system.py` defines the protocol, `registry.py` lists the systems. This package may import the rest
of `cluster`. `harness` imports this package.
"""
