"""The whole time line of a run as a zoomable page, with every operation and every fault.

`page.py` writes `timeline.html`. This file contains all scripts (Bokeh's and Logquake's), so a
browser needs no other file. The page never draws a million operations at once. `levels.py` counts
the operations in each lane and time span, for time spans of several widths. `blocks.py` packs
single operations, which the page unpacks when a reader zooms in. Only this package imports bokeh.
"""
