"""What is taken elsewhere: bundles to judge a run again, and its tables in the forms of others.

`bundle.py` packs a run into one file and takes it into another store; `perfetto.py`, `sheets.py`
and `jepsen.py` write what other programs read. Everything starts from the stored files only, and
rows are read and written in pieces, so that a run of ten million rows needs no more memory than a
small one. A new form is a module with one function, and a line in `harness/cli/exporting.py`.
"""
