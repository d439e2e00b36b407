"""Write documentation pages from the code at each build of the documentation site.

`plugin.py` is the plugin for MkDocs. `generated.py` lists the generated pages, and one module
writes each kind of page. `includes.py` generates tables for the other pages, and `outside.py`
copies the READMEs of packages into the site. Generated texts are not in the repository: the next
build adds a new fault, check, option or plan key to the pages.

This package imports the rest of `harness`. Only MkDocs imports this package.
"""
