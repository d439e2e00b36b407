"""The pages of the documentation that are written from the code, at each build of the site.

`plugin.py` is MkDocs' way in. `generated.py` lists the pages; one module writes each kind of page.
`includes.py` has the tables that stand on written pages, and `outside.py` takes the READMEs of
packages into the site. Nothing of this is committed: a new fault, check, option or key of a plan
shows up at the next build. Stands on the rest of `harness`; nothing imports it but MkDocs.
"""
