"""Hunts: suites that choose each next run at random, more often where new behaviour appeared.

A hunt is a suite with `[hunt]` in place of entries. Each of its nights is called a part of the
hunt.
"""
