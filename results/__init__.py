"""What a run leaves behind, and how people look at it.

- `record/`: the record's tables and types: plan, tables, streams, verdict, clock, paths.
- `store.py`: run folders, the lock that tells a live run from a dead one, finding a run by its
  name.
- `verdict_json.py`, `environment.py`, `tables.py`: the files of a run, written and read.
- `show.py`, `show_story.py`: one run, or the list of runs, in a terminal; `show_named.py`: one op
  or value of a run.
- `report.py`, `engine.py`, `page/`, `templates/`, `plots/`: one run as a single HTML page.
- `wording/`: what of a run's results is put into words the same way wherever it is shown.
- `drawings.py`: the pictures of a scripted run as files.
- `samples/`: stored runs that come with the package (`sample:valid` on the command line), which
  `shrink.py` makes.

Every other folder may import this one; it imports nothing of ours but itself. Nothing here needs a
broker, Java or Spark, so a stored run can be read wherever Python runs. Only `plots/` imports
matplotlib. A new section of the page is a module in `page/`, a block in `templates/report.html` and
a line in `report.py`.
"""
