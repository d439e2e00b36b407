"""Hunts: runs that are drawn one after the other, where new behaviour was seen last.

A hunt is a suite with `[hunt]` in place of entries. Its nights are the hunt's parts.
"""
