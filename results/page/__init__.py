"""The sections of a run's page: what each shows, worked out from the record as plain values.

One module a section. They read tables and the verdict, and know nothing of HTML;
`results/report.py` hands what they return to the templates. `results/show.py` shows some of them in
a terminal.

A failure is looked into once, by `investigation.py`, for page and terminal alike: `case.py` reads
all that the record has about the witness, `witness.py` tells it as a story, `close_up.py` draws the
time around it (`moments.py`: as rows), `broker_logs.py` finds what brokers logged then, `breach.py`
names the promise, and `recurrence.py` asks the index whether it was seen before.

The words that page, terminal and index share are in `results/wording`.

A scripted run is told by `story.py`: `scenes.py` has what each replica held at each step
(`logs.py`: as runs of records), `changes.py` what became of it since the step before, `axis.py` and
`drawing.py` where to draw it, `checkpoints.py` the lines of the brokers' files, `endings.py` what
became of each message, and `twins.py` the run by the other rule that is shown beside it.
"""
