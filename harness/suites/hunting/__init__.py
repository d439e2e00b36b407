"""Hunts: suites that choose each next run at random, but prefer runs that may show new behaviour.

A hunt is a suite with `[hunt]` in place of entries. One night of a hunt is called a part of the
hunt.
"""
