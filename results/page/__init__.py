"""The sections of a run's page: what each shows, worked out from the record as plain values.

One module a section. They read tables and the verdict, and know nothing of HTML;
`results/report.py` hands what they return to the templates. `results/show.py` shows some of them in
a terminal.
"""
