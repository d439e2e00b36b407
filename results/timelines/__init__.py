"""The whole time line of a run as a zoomable page, with every operation and every fault.

`page.py` writes `timeline.html`. This file contains all scripts (Bokeh's and Logquake's), so a
browser alone can show the page. The page never draws a million operations at once. `levels.py`
counts operations by lane and time span, for several widths of span. `blocks.py` packs single
operations, which the page unpacks when a reader zooms in. Only this package imports bokeh.
"""
