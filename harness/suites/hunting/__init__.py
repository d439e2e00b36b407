"""Hunts: suites that choose each next run at random, with a preference for new behaviour.

A hunt is a suite with `[hunt]` in place of entries. Each night of a hunt, i.e. each play of it, is
called a part of the hunt.
"""
