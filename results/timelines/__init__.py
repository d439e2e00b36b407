"""The whole time line of a run: every operation of every process against the faults, zoomable.

`page.py` writes `timeline.html`, which needs nothing but a browser: Bokeh's script and ours are in
it. A million operations are never drawn at once. `levels.py` counts them by lane and span of time,
at several widths of span; `blocks.py` packs the operations themselves, so that the page unpacks
those of a moment when somebody looks at it closely. bokeh is imported here and nowhere else.
"""
