"""The local web site over a store: `logquake serve`. Only this package uses Flask and waitress.

The site is read-only. Pages are made from the index and from the runs' folders. The code of each
route is only a few lines long. The contents of pages come from pure functions (`matrix.py`,
`series.py`, `comparing.py`, `watching.py`). `stored.py` serves files of runs in such a way that
scripts in these files cannot run in the site's origin. `guard.py` contains the site's security
policy. `manual.py` serves the documentation.
"""

from results.site.application import make_site
from results.site.guard import is_local
from results.site.serving import serve, serve_manual

__all__ = ["is_local", "make_site", "serve", "serve_manual"]
