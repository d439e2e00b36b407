"""The sections of a run's page: what each shows, worked out from the record as plain values.

One module a section. They read tables and the verdict, and know nothing of HTML;
`results/report.py` hands what they return to the templates. `results/show.py` shows some of them in
a terminal.

A scripted run is told by `story.py`: `scenes.py` has what each replica held at each step
(`logs.py`: as runs of records), `changes.py` what became of it since the step before, `axis.py` and
`drawing.py` where to draw it, `checkpoints.py` the lines of the brokers' files, `endings.py` what
became of each message, and `twins.py` the run by the other rule that is shown beside it.
"""
