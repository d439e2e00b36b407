"""The files of a run and the code that shows them: terminal, page, exports, local site.

- `record/`: the record's tables and types: plan, tables, streams, verdict, clock, paths.
- `store.py`: the folders of runs, the lock of a run in progress, and the search for a run by name.
- `verdict_json.py`, `environment.py`, `tables.py`: read and write a run's files.
- `show.py`, `show_story.py`: print one run, or the list of runs, in a terminal.
- `show_named.py`: prints one operation or one message of a run. The number of a message is its
  value.
- `report.py`, `engine.py`, `page/`, `templates/`, `plots/`: render one run as a single HTML page.
- `wording/`: the phrases that the terminal, the page and the index share.
- `drawings.py`: writes the drawings of a scripted run as files.
- `samples/`: stored runs that come with the package (`sample:valid` on the command line).
  `shrink.py` makes them.

Every other folder may import this folder, but this folder imports no other folder of Logquake.
Nothing here needs a broker, Java or Spark, so Python alone can show a stored run. Only `plots/`
imports matplotlib. To add a section to the page, add a module in `page/`, a block in
`templates/report.html` and a line in `report.py`.
"""
