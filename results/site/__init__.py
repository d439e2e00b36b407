"""The site over a store: `logquake serve`. Flask and waitress live here and nowhere else.

It only reads. Pages are made from the index and from what the runs' folders hold; each route is a
few lines, and what it shows is worked out by pure functions beside it (`matrix.py`, `series.py`,
`comparing.py`, `watching.py`). Files of runs are served by `stored.py`, so that nothing in them can
run in the site's origin; `guard.py` has the site's policy. `manual.py` serves the documentation.
"""

from results.site.application import make_site
from results.site.guard import is_local
from results.site.serving import serve, serve_manual

__all__ = ["is_local", "make_site", "serve", "serve_manual"]
