"""Exports of a run: bundles for another machine, and tables in the formats of other tools.

`bundle.py` packs a run into one file, and unpacks such a file into another store. `perfetto.py`,
`sheets.py` and `jepsen.py` write formats that other programs read. Every export reads only stored
files. It reads and writes rows in batches, so a large run needs no more memory than a small one. To
add a format, add a module with one function and a line in `harness/cli/exporting.py`.
"""
