"""The systems under test: one module each, behind one protocol.

`system.py` says what a system is, `registry.py` which there are. May import the rest of `cluster`;
is imported by `harness`.
"""
